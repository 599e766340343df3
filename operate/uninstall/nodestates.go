package uninstall

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/agents"
)

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
