package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/offload/borrower"
	"strait.dev/strait/offload/translate"
	"strait.dev/strait/operate/agents"
)

// OffloadReport is the status of the pods of one cluster that run in the other.
type OffloadReport struct {
	Node    string              `json:"node,omitempty"`    // the virtual node, if this cluster borrows
	Ready   string              `json:"ready,omitempty"`   // of the node: True, False, Unknown, or Missing
	Offered corev1.ResourceList `json:"offered,omitempty"` // capacity of the node
	Used    corev1.ResourceList `json:"used,omitempty"`    // what its pods request
	Pods    map[string]int      `json:"pods,omitempty"`    // of the node, by phase
	Waiting map[string]int      `json:"waiting,omitempty"` // of them, those that wait, by reason
	Lent    []string            `json:"lent,omitempty"`    // namespaces of this cluster
	Twins   map[string]int      `json:"twins,omitempty"`   // pods of the other cluster in them, by phase
	Unread  string              `json:"unread,omitempty"`  // why the rest is not known
}

func (r *Report) readOffload(ctx context.Context, c Cluster) error {
	all, err := c.Peerings(ctx)
	if err != nil {
		return err
	}
	for i := range r.Peerings {
		p := named(all, r.Peerings[i].Name)
		if p == nil || p.Spec.Lend == nil && p.Spec.Borrow == nil {
			continue
		}
		is, err := readOffload(ctx, c, p)
		if apierrors.IsForbidden(err) {
			is.Unread, err = "the account may not read it", nil
		}
		if err != nil {
			return err
		}
		r.Peerings[i].Offload = is
	}
	return nil
}

func readOffload(ctx context.Context, c Cluster, p *v1alpha1.Peering) (*OffloadReport, error) {
	o := &OffloadReport{}
	if p.Spec.Borrow != nil {
		o.Node, o.Ready = borrower.NodeName(p.Name, p.Spec.Borrow.NodeName), "Missing"
	}
	if p.Spec.Lend != nil {
		o.Lent = p.Spec.Lend.Namespaces
	}
	for _, namespace := range o.Lent {
		pods, err := List(ctx, c, "the pods of namespace "+namespace, c.Client.Pods(namespace), metav1.ListOptions{LabelSelector: translate.PeeringLabel + "=" + p.Name})
		if err != nil {
			return o, err
		}
		for _, pod := range pods.Items {
			count(&o.Twins, string(pod.Status.Phase))
		}
	}
	if o.Node == "" {
		return o, nil
	}
	within, cancel := c.within(ctx)
	defer cancel()
	node, err := c.Client.Nodes().Get(within, o.Node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return o, nil
	}
	if err != nil {
		return o, c.Failed("read node "+o.Node, err)
	}
	o.Offered = node.Status.Allocatable
	o.Ready = string(agents.NodeReady(node))
	pods, err := List(ctx, c, "the pods of node "+o.Node, c.Client.Pods(""), metav1.ListOptions{FieldSelector: "spec.nodeName=" + o.Node})
	if err != nil {
		return o, err
	}
	o.Used = make(corev1.ResourceList)
	for i := range pods.Items {
		o.add(&pods.Items[i])
	}
	return o, nil
}

func (o *OffloadReport) add(pod *corev1.Pod) {
	count(&o.Pods, string(pod.Status.Phase))
	if pod.Status.Phase == corev1.PodPending && pod.Status.Reason != "" {
		count(&o.Waiting, pod.Status.Reason)
	}
	if translate.Final(pod.Status.Phase) {
		return
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		q := o.Used[name]
		q.Add(translate.Requests(&pod.Spec, name))
		o.Used[name] = q
	}
	q := o.Used[corev1.ResourcePods]
	q.Set(q.Value() + 1)
	o.Used[corev1.ResourcePods] = q
}

func count(of *map[string]int, what string) {
	if *of == nil {
		*of = make(map[string]int)
	}
	(*of)[what]++
}

func (o *OffloadReport) table(b *strings.Builder) {
	b.WriteByte('\n')
	if o.Node != "" {
		fmt.Fprintf(b, "  virtual node %s: ready %s", o.Node, o.Ready)
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods} {
			if offered, ok := o.Offered[name]; ok {
				used := o.Used[name]
				fmt.Fprintf(b, ", %s %s of %s", name, used.String(), offered.String())
			}
		}
		b.WriteByte('\n')
		fmt.Fprintf(b, "  its pods: %s\n", Counts(o.Pods))
		if len(o.Waiting) > 0 {
			fmt.Fprintf(b, "  waiting: %s; look at the events of these pods\n", Counts(o.Waiting))
		}
	}
	if len(o.Lent) > 0 {
		fmt.Fprintf(b, "  lent: %s; pods of the remote cluster: %s\n", strings.Join(o.Lent, ", "), Counts(o.Twins))
	}
	if o.Unread != "" {
		fmt.Fprintf(b, "  offloaded pods are not shown: %s\n", o.Unread)
	}
}

// Counts lists numbers of pods, as by phase: "2 Running, 1 Succeeded".
func Counts(of map[string]int) string {
	var all []string
	for _, what := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%d %s", of[what], what))
	}
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(all, ", ")
}
