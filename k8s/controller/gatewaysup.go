package controller

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/condition"
)

// gatewaysUp returns the condition GatewaysUp: whether all gateways of the spec have a link,
// and why the others do not. Its reason is that of the first one.
func (r *report) gatewaysUp(p *v1alpha1.Peering) metav1.Condition {
	names := gatewayNames(p)
	var reason string
	var down []string
	for _, name := range names {
		why, text := r.notForwarding(name)
		if why == "" {
			continue
		}
		if reason == "" {
			reason = why
		}
		down = append(down, fmt.Sprintf("gateway %s %s", name, text))
	}
	text := fmt.Sprintf("%d of %d gateways have a link", len(names)-len(down), len(names))
	if len(down) == 0 {
		return condition.New(metav1.ConditionTrue, "AllUp", "%s", text)
	}
	return condition.New(metav1.ConditionFalse, reason, "%s: %s", text, strings.Join(down, "; "))
}

// notForwarding returns why a gateway has no link, as a reason and a predicate, empty if it has
// one.
func (r *report) notForwarding(name string) (reason, text string) {
	pod, ok := r.pods[name]
	if !ok {
		return "NoPod", "has no pod yet; if this persists, run `kubectl describe statefulset` in the namespace of the gateways"
	}
	switch {
	case pod.linkUp():
		return "", ""
	case pod.DeletionTimestamp != nil:
		return "Ending", fmt.Sprintf("ends on node %s", pod.Spec.NodeName)
	case unschedulable(pod.Pod):
		return v1alpha1.ReasonUnschedulable, fmt.Sprintf("has no node: %s; set spec.gateway.replicas to a number that the nodes have room for, or add nodes",
			podCondition(pod.Pod, corev1.PodScheduled).Message)
	case !podRuns(pod.Pod):
		return "NotRunning", fmt.Sprintf("is not ready; run `kubectl describe pod %s --namespace %s` and check its log", name, pod.Namespace)
	}
	return "NoLink", "has no link; check its log and TunnelUp"
}

func unschedulable(pod *corev1.Pod) bool {
	scheduled := podCondition(pod, corev1.PodScheduled)
	return scheduled != nil && scheduled.Status == corev1.ConditionFalse
}
