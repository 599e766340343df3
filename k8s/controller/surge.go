package controller

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/workload"
	"strait.dev/strait/k8s/peering"
)

// The only gateway of a peering is not replaced before a second, temporary one forwards. The
// temporary gateway is the next ordinal of the StatefulSet, which has two replicas meanwhile:
//
//   - in a rollout, Kubernetes creates it with the new template, waits for its readiness gate,
//     and then replaces the first one
//   - if the node of the first one is cordoned, as for a drain, it starts on another node. The
//     PodDisruptionBudget then allows one eviction; before, it allows none
//
// It ends when the first gateway is back: ready for minReadySeconds, with a link.

// drainTimeout is the time after which a gateway that has no node does not hold up a rollout
// or a drain any more: there is no room for a temporary gateway.
const drainTimeout = 2 * time.Minute

// canSurge reports whether a temporary gateway can get a link. The remote cluster learns its
// key from an announcement. It needs no endpoint if this cluster initiates connections, and a
// port of the nodes is available at once; a load balancer of its own may not be.
func canSurge(p *v1alpha1.Peering, remote peering.Remote) bool {
	return p.Spec.Gateway.Replicas == 1 && meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionAnnounced) &&
		(len(remote.Calls()) > 0 || p.Spec.Gateway.Service.Type == corev1.ServiceTypeNodePort)
}

func isTemporary(p *v1alpha1.Peering, name string) bool {
	return !slices.Contains(gatewayNames(p), name)
}

// surges reports whether a peering with one gateway is to have a temporary one at a time: in
// the rollout now, or while its node is cordoned. set is its current StatefulSet.
func (c *controller) surges(p *v1alpha1.Peering, set *appsv1.StatefulSet, now rollout, possible bool, pods gatewayPods, at time.Time) bool {
	if p.Spec.Gateway.Replicas != 1 {
		return false
	}
	first, second := pods[peering.GatewayName(p, 0)], pods[peering.GatewayName(p, 1)]
	begins, rolling := rolloutOf(set).Template != now.Template, set.Status.CurrentRevision != set.Status.UpdateRevision
	switch {
	case now.Surge && (begins || !complete(set)):
		return true
	case *set.Spec.Replicas > 1 && second.linkUp() && !settled(first, at):
		if first.linkUp() {
			c.wakeBatched() // no event says that it has settled
		}
		return true
	}
	// A rollout without a temporary gateway has a reason, for instance that no node has room.
	return possible && !begins && !rolling && first.linkUp() && c.cordoned(first.Spec.NodeName)
}

func settled(pod gatewayPod, now time.Time) bool {
	if !pod.linkUp() || !podReady(pod.Pod) {
		return false
	}
	return now.Sub(podCondition(pod.Pod, corev1.PodReady).LastTransitionTime.Time) >= workload.MinReadySeconds*time.Second
}

func (c *controller) cordoned(name string) bool {
	node, ok := c.nodes.Get(name)
	return ok && node.Spec.Unschedulable
}

func waitsForNode(pod gatewayPod, now time.Time) bool {
	return pod.Pod != nil && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && now.Sub(pod.CreationTimestamp.Time) >= drainTimeout
}

// disruptable reports whether evictions of a peering's gateways are not limited: a single
// gateway that cannot surge would block the drain of its node forever, and so would gateways
// on cordoned nodes if there is no other node for them.
func (c *controller) disruptable(p *v1alpha1.Peering, possible bool, pods gatewayPods, now time.Time) bool {
	if p.Spec.Gateway.Replicas == 1 && !(possible && len(gatewaysUp(p)) > 0) {
		return true
	}
	names := known(p)
	return slices.ContainsFunc(names, func(name string) bool { return waitsForNode(pods[name], now) }) &&
		!slices.ContainsFunc(names, func(name string) bool {
			pod := pods[name]
			return pod.Pod != nil && podReady(pod.Pod) && !c.cordoned(pod.Spec.NodeName)
		})
}

// temporaryService returns the Service of the temporary gateway of a peering. It has no
// endpoint if this cluster initiates connections.
func temporaryService(g workload.Gateways, p *v1alpha1.Peering, remote peering.Remote) *corev1.Service {
	if len(remote.Calls()) > 0 {
		p = p.DeepCopy()
		p.Spec.Gateway.Service = v1alpha1.GatewayService{Type: corev1.ServiceTypeClusterIP, Port: p.Spec.Gateway.Service.Port}
	}
	return workload.Service(g, p, 1, workload.Provider{}) // never a load balancer: see canSurge
}

// surgeProgress describes what a rollout waits for at the temporary gateway, empty if for
// nothing.
func surgeProgress(set *appsv1.StatefulSet, temporary, first string, pod *corev1.Pod) string {
	if pod != nil && podReady(pod) {
		return ""
	}
	text := fmt.Sprintf("gateway %s, which stands in while %s is replaced, ", temporary, first)
	switch {
	case pod == nil || pod.Spec.NodeName == "":
		return text + fmt.Sprintf("has no node yet; %s is replaced without it after %v", first, drainTimeout)
	case !podRuns(pod):
		return text + fmt.Sprintf("is not ready; run `kubectl describe pod %s --namespace %s` and check its log", temporary, pod.Namespace)
	}
	return text + fmt.Sprintf("has no link yet; check its log and TunnelUp. To replace %s without it, run `kubectl annotate statefulset %s --namespace %s %s-`",
		first, set.Name, set.Namespace, rolloutAnnotation)
}
