package agents

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/install"
)

func virtual(nodes []corev1.Node) (names []string) {
	for i := range nodes {
		if install.IsVirtual(&nodes[i]) {
			names = append(names, nodes[i].Name)
		}
	}
	return names
}

// Joined returns the names of the nodes on which a pod takes part in peerings: those that are
// ready and schedulable and have a NodeAttachment. In a cluster without node helpers no node
// has one, and all take part except virtual ones. Nodes without taints come first, then it is
// the order of the names. The lists are not changed.
func Joined(nodes []corev1.Node, attached []v1alpha1.NodeAttachment, withoutNodes bool) (names []string) {
	var some []corev1.Node
	for _, n := range nodes {
		joined := slices.ContainsFunc(attached, func(a v1alpha1.NodeAttachment) bool { return a.Name == n.Name })
		if withoutNodes {
			joined = n.Labels[corev1.LabelOSStable] != "windows" && !install.IsVirtual(&n)
		}
		if NodeReady(&n) == corev1.ConditionTrue && joined && !n.Spec.Unschedulable {
			some = append(some, n)
		}
	}
	slices.SortFunc(some, func(a, b corev1.Node) int { return cmp.Or(taints(a)-taints(b), cmp.Compare(a.Name, b.Name)) })
	for _, n := range some {
		names = append(names, n.Name)
	}
	return names
}

// NodeReady returns the status of a node's condition Ready, empty if it has none.
func NodeReady(node *corev1.Node) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return ""
}

// PodReady reports whether the condition Ready of a pod is true.
func PodReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// Addresses returns the addresses of a pod.
func Addresses(pod *corev1.Pod) (all []netip.Addr) {
	for _, ip := range pod.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			all = append(all, a.Unmap())
		}
	}
	return all
}

// taints returns 1 for a node with a taint that keeps pods away, otherwise 0.
func taints(n corev1.Node) int {
	if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }) {
		return 1
	}
	return 0
}
