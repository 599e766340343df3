package controller

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/nodeinfo"
)

// Kubernetes evicts the pods of a node whose kubelet does not respond, but keeps them until
// the kubelet confirms that they have ended: that of a node without power never does, and a
// StatefulSet creates no pod of the same name meanwhile. The controller deletes such a
// gateway's pod, so that it starts on another node, when three sources agree:
//
//   - Kubernetes has evicted it (lostNodeTolerations), or its Node no longer exists
//   - its node is not ready according to the API server itself
//   - most ready nodes get no answer from the gateway
//
// The last one keeps gateways that work on nodes that only the API server cannot reach. The
// new pod has the same key; docs/design/lost-nodes.md explains why that does no harm if the
// old one still runs.

func (c *controller) deleteLost(ctx context.Context, pods gatewayPods) {
	for _, gateway := range pods {
		node, _ := c.nodes.Get(gateway.Spec.NodeName)
		if !isLost(gateway.Pod, node, time.Now()) || c.answersNodes(gateway.Name) {
			continue
		}
		if err := c.deleteIfLost(ctx, gateway.Pod); err != nil && ctx.Err() == nil {
			c.log.Warn("cannot delete the pod of a gateway on a lost node; trying again", "pod", gateway.Name, "node", gateway.Spec.NodeName, "error", err)
		}
	}
}

// deleteIfLost deletes a pod without waiting for its kubelet if its node is lost according to
// the API server itself. Another pod that has replaced it is not deleted.
func (c *controller) deleteIfLost(ctx context.Context, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	node, err := c.client.Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		node = nil
	case err != nil:
		return err
	}
	if !isLost(pod, node, time.Now()) {
		return nil
	}
	err = c.client.Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err == nil {
		c.log.Warn("deleted the pod of a gateway on a lost node", "pod", pod.Name, "node", pod.Spec.NodeName)
	}
	return err
}

// isLost reports whether a pod does not run any more because its node is lost. A nil node does
// not exist.
func isLost(pod *corev1.Pod, node *corev1.Node, now time.Time) bool {
	switch {
	case pod.Spec.NodeName == "":
		return false
	case node == nil:
		return !podRuns(pod)
	case pod.DeletionTimestamp == nil:
		return false // tolerations may let it stay
	}
	switch ready := nodeinfo.Readiness(node); {
	case len(ready) == 0 || ready[0].Status == corev1.ConditionTrue:
		return false
	case ready[0].Status == corev1.ConditionUnknown:
		return true // the kubelet does not respond
	}
	return now.After(pod.DeletionTimestamp.Time) // the kubelet responds, but does not end pods
}

func (c *controller) answersNodes(gateway string) bool {
	ready, answered := 0, 0
	for _, a := range c.attachments.List() {
		if node, ok := c.nodes.Get(a.Name); !ok || !nodeinfo.Ready(node) {
			continue
		}
		ready++
		if slices.ContainsFunc(a.Status.Gateways, func(g v1alpha1.NodeGateway) bool { return g.Name == gateway && g.Ready }) {
			answered++
		}
	}
	return 2*answered > ready
}
