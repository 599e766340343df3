package uninstall

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/operate/agents"
	"strait.dev/strait/operate/preflight"
)

// Options configure Prepare.
type Options struct {
	Client   *client.Client
	Gateways string            // the namespace of the gateways' pods
	For      time.Duration     // timeout for gateways and nodes
	DryRun   bool              // store nothing and wait for nothing: report what would be removed
	Say      func(line string) // progress; nil: not reported
}

// Prepared is the result of Prepare.
type Prepared struct {
	Removed  []string `json:"removed,omitempty"`  // objects, like "Peering b"
	Released []string `json:"released,omitempty"` // nodes that are detached
	Lost     []Node   `json:"lost,omitempty"`     // nodes whose helper cannot respond
}

const pollInterval = 500 * time.Millisecond

const fieldManager = "strait-uninstall"

// Prepare detaches a cluster: it deletes Peerings and AddressMappings, and waits until
// their gateways are deleted and the helper of every ready node has removed its
// configuration. It may be interrupted and called again. A cluster without Strait's objects
// needs no preparation.
func Prepare(ctx context.Context, o Options) (*Prepared, error) {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	if o.DryRun {
		o.Client = o.Client.DryRun()
	}
	p := &preparation{Options: o}
	within, cancel := context.WithTimeout(ctx, o.For)
	defer cancel()
	for {
		missing, err := p.step(within)
		switch {
		case within.Err() != nil: // the last missing items are reported
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return &p.Prepared, fmt.Errorf("%w; use an account with the permissions in k8s/rbac/uninstall.yaml", err)
		case errors.As(err, new(peering.OffloadsError)):
			return &p.Prepared, err
		case err != nil: // possibly temporary
			p.missing = []string{err.Error()}
		case len(missing) == 0, o.DryRun:
			return &p.Prepared, nil
		default:
			p.missing = missing
		}
		o.Say("waiting for " + preflight.ShortList(p.missing))
		select {
		case <-within.Done():
			return &p.Prepared, p.timeoutError(ctx)
		case <-time.After(pollInterval):
		}
	}
}

type preparation struct {
	Options
	Prepared
	missing []string // at the last check
}

// ask annotates the ClusterNetwork, also again if the annotation was removed. Without a
// ClusterNetwork no helper sets anything up.
func (p *preparation) ask(ctx context.Context) error {
	network, err := p.Client.ClusterNetworks().Get(ctx, v1alpha1.ClusterNetworkName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read ClusterNetwork %s: %w", v1alpha1.ClusterNetworkName, err)
	}
	if _, asked := network.Annotations[v1alpha1.UninstallAnnotation]; asked {
		return nil
	}
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.UninstallAnnotation, time.Now().UTC().Format(time.RFC3339))
	_, err = p.Client.ClusterNetworks().Patch(ctx, network.Name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("annotate ClusterNetwork %s: %w", network.Name, err)
	}
	return nil
}

// step performs the next actions, and returns what to wait for.
func (p *preparation) step(ctx context.Context) (missing []string, err error) {
	peerings, err := p.Client.Peerings().List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil // Strait's CRDs are not installed
	}
	if err != nil {
		return nil, fmt.Errorf("list Peerings: %w", err)
	}
	for i := range peerings.Items {
		if err := peering.Offloads(&peerings.Items[i]); err != nil {
			return nil, err
		}
	}
	if err := p.ask(ctx); err != nil {
		return nil, err
	}
	objects, err := p.objects(ctx)
	if err != nil {
		return nil, err
	}
	waiting, err := p.nodes(ctx)
	return append(objects, waiting...), err
}

// nodes returns the nodes that are not detached yet, with the reason.
func (p *preparation) nodes(ctx context.Context) (waiting []string, err error) {
	attachments, err := p.Client.NodeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list NodeAttachments: %w", err)
	}
	all, err := p.Client.Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	n := classifyNodes(attachments.Items, all.Items)
	p.Released, p.Lost = n.released, n.lost
	for _, node := range n.waiting {
		waiting = append(waiting, fmt.Sprintf("node %s: %s", node.Name, node.Why))
	}
	return waiting, nil
}

// timeoutError returns the error of a preparation that timed out or was interrupted.
func (p *preparation) timeoutError(ctx context.Context) error {
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted while waiting for %s; %s", preflight.ShortList(p.missing), resumeHint)
	}
	return fmt.Errorf("not finished after %v; remaining:\n  %s\nIf deleted objects reappear, remove them from the tool that applies them, such as Argo CD or Flux. "+
		"To skip a node, run helm uninstall --no-hooks, and strait node --remove on that node. %s", p.For, strings.Join(p.missing, "\n  "), resumeHint)
}

const resumeHint = "Run the same command again to continue; to keep Strait instead, run kubectl annotate clusternetwork " + v1alpha1.ClusterNetworkName + " " + v1alpha1.UninstallAnnotation + "-"

// Node is a node that was not detached, and the reason.
type Node struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// nodes are the nodes of a cluster on which a helper ever ran, by the state of their
// detachment.
type nodes struct {
	released []string
	waiting  []Node // the helper has not finished
	lost     []Node // the helper cannot respond
}

// classifyNodes groups the nodes by state. A node whose helper never reported a status has
// nothing to remove.
func classifyNodes(attachments []v1alpha1.NodeAttachment, all []corev1.Node) (n nodes) {
	is := make(map[string]*corev1.Node, len(all))
	for i := range all {
		is[all[i].Name] = &all[i]
	}
	for i := range attachments {
		a := &attachments[i]
		node := is[a.Name]
		released := meta.FindStatusCondition(a.Status.Conditions, v1alpha1.ConditionReleased)
		switch {
		case released != nil && released.Status == "True":
			n.released = append(n.released, a.Name)
		case node == nil, len(a.Status.Conditions) == 0:
		case agents.NodeReady(node) != corev1.ConditionTrue:
			n.lost = append(n.lost, Node{a.Name, "the node is not ready, so its helper cannot remove anything"})
		case released != nil:
			n.waiting = append(n.waiting, Node{a.Name, released.Message})
		default:
			n.waiting = append(n.waiting, Node{a.Name, fmt.Sprintf("the node helper has not responded; check that its pod runs: kubectl get pods -A -l %s --field-selector spec.nodeName=%s", install.Selector(install.Node), a.Name)})
		}
	}
	return n
}
