package uninstall

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/install"
)

// Node is one that did not let go, and why.
type Node struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// nodes are those of a cluster that helpers ever ran on, by what they do about letting go.
type nodes struct {
	released []string
	waiting  []Node // their helpers are at it
	lost     []Node // there is nobody to wait for
}

// classifyNodes sorts them. Where no helper ever said anything, there is nothing to let go of.
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
		case !ready(node):
			n.lost = append(n.lost, Node{a.Name, "the node is not ready, so that its helper cannot remove anything"})
		case released != nil:
			n.waiting = append(n.waiting, Node{a.Name, released.Message})
		default:
			n.waiting = append(n.waiting, Node{a.Name, fmt.Sprintf("the node's helper has not answered; see whether its pod runs: kubectl get pods -A -l %s --field-selector spec.nodeName=%s", install.Selector(install.Node), a.Name)})
		}
	}
	return n
}

func ready(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
