package offload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/offload/borrower"
	"strait.dev/strait/offload/translate"
	"strait.dev/strait/operate/operator"
)

const nodeLeases = "kube-node-lease"

// UnborrowOptions say how a virtual node is removed.
type UnborrowOptions struct {
	Peering string
	Wait    time.Duration // for pods to end, at most
	Force   bool          // do not wait for them: the other cluster is lost
	Say     func(string)  // progress
}

// Unborrowing is what Unborrow removes.
type Unborrowing struct {
	Cluster    string   `json:"cluster"` // as in operator.Cluster
	Peering    string   `json:"peering"`
	Node       string   `json:"node"`
	Namespaces []string `json:"namespaces,omitempty"` // that are not offloaded any more
	Pods       int      `json:"pods"`                 // of the node
}

// PlanUnborrow returns what Unborrow removes. The Peering may be gone.
func PlanUnborrow(ctx context.Context, c operator.Cluster, o UnborrowOptions) (u Unborrowing, err error) {
	u = Unborrowing{Cluster: c.Name, Peering: o.Peering, Node: borrower.NodeName(o.Peering, "")}
	nodes, err := operator.List(ctx, c, "Nodes", c.Client.Nodes(), metav1.ListOptions{LabelSelector: translate.PeeringLabel + "=" + o.Peering})
	if err != nil {
		return u, err
	}
	p, err := c.Client.Peerings().Get(ctx, o.Peering, metav1.GetOptions{})
	switch {
	case err == nil && p.Spec.Borrow != nil:
		u.Node = borrower.NodeName(o.Peering, p.Spec.Borrow.NodeName)
	case err != nil && !apierrors.IsNotFound(err):
		return u, c.Failed("read Peering "+o.Peering, err)
	case len(nodes.Items) > 0:
		u.Node = nodes.Items[0].Name
	}
	switch is, err := isMachine(ctx, c, u.Node, o.Peering); {
	case err != nil:
		return u, err
	case is:
		return u, fmt.Errorf("%s: node %s is not the virtual node of Peering %s, and is not drained; remove spec.borrow of the Peering, and run strait unborrow again", c.Name, u.Node, o.Peering)
	}
	namespaces, err := operator.List(ctx, c, "Namespaces", c.Client.Namespaces(), metav1.ListOptions{LabelSelector: borrower.OffloadLabel + "=" + o.Peering})
	if err != nil {
		return u, err
	}
	for _, n := range namespaces.Items {
		u.Namespaces = append(u.Namespaces, n.Name)
	}
	pods, err := podsOf(ctx, c, u.Node)
	u.Pods = len(pods)
	return u, err
}

// Unborrow removes a virtual node: no new pod is scheduled to it, those that it has are evicted as
// PodDisruptionBudgets permit, and when the other cluster has ended them, the borrower, the node
// and all rights are deleted. It may be interrupted and called again.
func Unborrow(ctx context.Context, c operator.Cluster, o UnborrowOptions) (Unborrowing, error) {
	u, err := PlanUnborrow(ctx, c, o)
	if err != nil {
		return u, err
	}
	_, err = c.Client.Nodes().Patch(ctx, u.Node, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{FieldManager: manager})
	if err := operator.UnlessMissing(err); err != nil {
		return u, c.Failed("cordon node "+u.Node, err)
	}
	if !o.Force {
		if err := drain(ctx, c, u.Node, o); err != nil {
			return u, err
		}
	}
	v := values{Namespace: Namespace, Agent: borrower.Name(u.Peering), Command: "borrower", Peering: u.Peering, Node: u.Node, RuntimeClass: runtimeClass(u.Peering)}
	for _, v.Offloaded = range u.Namespaces {
		if err := remove(ctx, c, "offloaded.yaml", v); err != nil {
			return u, err
		}
		if err := unlabel(ctx, c, v.Offloaded, borrower.OffloadLabel); err != nil {
			return u, err
		}
	}
	if err := patchSpec(ctx, c, u.Peering, map[string]any{"borrow": nil}); err != nil {
		return u, err
	}
	for _, manifest := range []string{"runtimeclass.yaml", "agents.yaml"} {
		if err := remove(ctx, c, manifest, v); err != nil {
			return u, err
		}
	}
	if err := untilStopped(ctx, c, v.Agent, o); err != nil {
		return u, err
	}
	if err := operator.Delete(ctx, c, "Node", c.Client.Nodes(), u.Node, metav1.DeleteOptions{}); err != nil {
		return u, err
	}
	if err := operator.Delete(ctx, c, "Lease", c.Client.Leases(nodeLeases), u.Node, metav1.DeleteOptions{}); err != nil {
		return u, err
	}
	return u, removeAgent(ctx, c, v.Agent)
}

// podsOf returns the pods of a node, without those of DaemonSets, which come back as long as the
// node exists.
func podsOf(ctx context.Context, c operator.Cluster, node string) ([]corev1.Pod, error) {
	pods, err := operator.List(ctx, c, "the pods of node "+node, c.Client.Pods(""), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
		owner := metav1.GetControllerOf(&p)
		return owner != nil && owner.Kind == "DaemonSet"
	}), nil
}

func drain(ctx context.Context, c operator.Cluster, node string, o UnborrowOptions) error {
	err := untilNone(ctx, c, o.Wait, o.Say, func() (left []string, err error) {
		pods, err := podsOf(ctx, c, node)
		for _, pod := range pods {
			left = append(left, pod.Namespace+"/"+pod.Name)
			if pod.DeletionTimestamp != nil {
				continue
			}
			err := c.Client.Evict(ctx, pod.Namespace, pod.Name)
			if err != nil && !apierrors.IsTooManyRequests(err) && !apierrors.IsNotFound(err) { // a PodDisruptionBudget may permit it later
				return nil, c.Failed("evict pod "+pod.Namespace+"/"+pod.Name, err)
			}
		}
		return left, err
	})
	if errors.Is(err, errNotEnded) {
		err = fmt.Errorf("%w; if the other cluster is lost, add --force: its pods are then removed from this cluster, and may run on there", err)
	}
	return err
}

// untilStopped waits until no pod of an agent runs: it would make its node again.
func untilStopped(ctx context.Context, c operator.Cluster, agent string, o UnborrowOptions) error {
	return untilNone(ctx, c, o.Wait, o.Say, func() (left []string, err error) {
		pods, err := operator.List(ctx, c, "the pods of "+agent, c.Client.Pods(Namespace), metav1.ListOptions{LabelSelector: "strait.dev/agent=" + agent})
		for _, pod := range pods.Items {
			left = append(left, Namespace+"/"+pod.Name)
		}
		return left, err
	})
}
