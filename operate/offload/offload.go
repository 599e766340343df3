package offload

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/offload/borrower"
	"strait.dev/strait/offload/identity"
	"strait.dev/strait/operate/agents"
	"strait.dev/strait/operate/operator"
)

// Namespace is that of the agents.
const Namespace = "strait-offload"

const port = 6097

// madeAnnotation is on namespaces that Lend has made.
const madeAnnotation = "strait.dev/made-by"

// poll is the interval of looking at what an agent has done.
const poll = time.Second

// Offloaded are namespaces whose pods may run in the cluster of a Peering.
type Offloaded struct {
	Cluster      string   `json:"cluster"` // as in operator.Cluster
	Peering      string   `json:"peering"`
	Namespaces   []string `json:"namespaces"`
	Node         string   `json:"node"`
	RuntimeClass string   `json:"runtimeClass"` // of pods that do
}

// Offload lets pods of namespaces run in the cluster of a Peering.
func Offload(ctx context.Context, c operator.Cluster, name string, namespaces []string) (o Offloaded, err error) {
	plan, p, err := planOffload(ctx, c, name, namespaces)
	if err != nil {
		return o, err
	}
	return Offloaded{c.Name, name, namespaces, borrower.NodeName(name, p.Spec.Borrow.NodeName), runtimeClass(name)}, plan.apply(ctx, c)
}

// PlanOffload returns the objects that Offload applies.
func PlanOffload(ctx context.Context, c operator.Cluster, name string, namespaces []string) (Plan, error) {
	plan, _, err := planOffload(ctx, c, name, namespaces)
	return plan, err
}

func planOffload(ctx context.Context, c operator.Cluster, name string, namespaces []string) (plan Plan, p *v1alpha1.Peering, err error) {
	if p, err = peering(ctx, c, name); err != nil {
		return nil, nil, err
	}
	if p.Spec.Borrow == nil {
		return nil, nil, fmt.Errorf("%s: nothing is borrowed from the cluster of Peering %s; first run: strait borrow --from %s", c.Name, name, name)
	}
	for _, namespace := range namespaces {
		is, err := c.Client.Namespaces().Get(ctx, namespace, metav1.GetOptions{})
		if err != nil {
			return nil, nil, c.Failed("read namespace "+namespace, err)
		}
		if to, ok := is.Labels[borrower.OffloadLabel]; ok && to != name {
			return nil, nil, fmt.Errorf("%s: namespace %s is offloaded to Peering %s already", c.Name, namespace, to)
		}
		if err := plan.add(values{Namespace: Namespace, Agent: borrower.Name(name), Peering: name, Offloaded: namespace}, "offloaded.yaml"); err != nil {
			return nil, nil, err
		}
	}
	return plan, p, nil
}

// AwaitNode waits until the virtual node of a Peering is ready.
func AwaitNode(ctx context.Context, c operator.Cluster, o Offloaded, w operator.Waiting) error {
	return w.Until(ctx, func(ctx context.Context) (missing string, err error) {
		node, err := c.Client.Nodes().Get(ctx, o.Node, metav1.GetOptions{})
		switch {
		case err == nil && agents.NodeReady(node) == corev1.ConditionTrue:
			return "", nil
		case err != nil && !apierrors.IsNotFound(err):
			return "", c.Failed("read node "+o.Node, err)
		}
		p, err := peering(ctx, c, o.Peering)
		if err != nil {
			return "", err
		}
		if a := p.Status.Announcement; a == nil || a.Offload == nil || a.Offload.Lender == nil {
			return fmt.Sprintf("node %s is not ready: the cluster of Peering %s lends nothing yet; its admin can: strait lend", o.Node, o.Peering), nil
		}
		return fmt.Sprintf("node %s is not ready; look at: kubectl --namespace %s logs deployment/%s", o.Node, Namespace, borrower.Name(o.Peering)), nil
	})
}

func peering(ctx context.Context, c operator.Cluster, name string) (*v1alpha1.Peering, error) {
	p, err := c.Client.Peerings().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("%s: there is no Peering %s; strait status lists them", c.Name, name)
	}
	return p, c.Failed("read Peering "+name, err)
}

// certificate returns the fingerprint of an agent's certificate, which the agent makes when it
// first runs.
func certificate(ctx context.Context, c operator.Cluster, agent string, wait time.Duration) (v1alpha1.Fingerprint, error) {
	for deadline := time.Now().Add(wait); ; {
		is, err := c.Client.Secrets(Namespace).Get(ctx, agent, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return "", c.Failed("read Secret "+agent, err)
		}
		if err == nil && is.Annotations[identity.FingerprintAnnotation] != "" {
			return v1alpha1.Fingerprint(is.Annotations[identity.FingerprintAnnotation]), nil
		}
		if time.Now().After(deadline) {
			return "", fmt.Errorf("%s: %s does not run after %v; look at: kubectl --namespace %s describe deployment %s; then run the command again",
				c.Name, agent, wait, Namespace, agent)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(poll):
		}
	}
}

func applySpec(ctx context.Context, c operator.Cluster, p *v1alpha1.Peering, spec v1alpha1.PeeringSpec) error {
	_, err := c.Client.Peerings().Apply(ctx, &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: p.Name, UID: p.UID}, Spec: spec}, manager)
	return c.Failed("write Peering "+p.Name, err)
}
