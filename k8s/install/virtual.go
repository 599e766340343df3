package install

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// NotVirtual returns the requirements that virtual nodes do not meet: these stand for another
// cluster or service, and run their pods there, outside of the cluster's network. The chart's
// default of node.affinity has the same.
func NotVirtual() []corev1.NodeSelectorRequirement {
	return []corev1.NodeSelectorRequirement{
		{Key: "type", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"virtual-kubelet", "virtual-node", "kwok"}},
		{Key: "liqo.io/type", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"virtual-node"}},
		{Key: "virtual-kubelet.io/provider", Operator: corev1.NodeSelectorOpDoesNotExist},
		{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"eklet"}},
	}
}

// IsVirtual reports whether a node does not meet NotVirtual.
func IsVirtual(n *corev1.Node) bool {
	return slices.ContainsFunc(NotVirtual(), func(r corev1.NodeSelectorRequirement) bool {
		value, ok := n.Labels[r.Key]
		return ok && (r.Operator == corev1.NodeSelectorOpDoesNotExist || slices.Contains(r.Values, value))
	})
}
