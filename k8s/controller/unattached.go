package controller

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/condition"
)

// noteUnattached keeps the reasons why nodes cannot be attached for the condition
// NodesAttached, which the next pass writes. They do not fail the pass: other nodes are
// attached, and a repetition changes nothing.
func (c *controller) noteUnattached(reasons []string) {
	slices.Sort(reasons)
	if reasons == nil {
		reasons = []string{} // known
	}
	if c.unattached == nil || !slices.Equal(reasons, c.unattached) {
		c.unattached = reasons
		c.wakeUp()
	}
}

// nodesAttached returns the condition NodesAttached of a ClusterNetwork.
func nodesAttached(reasons []string) metav1.Condition {
	c := condition.New(metav1.ConditionTrue, "Attached", "every node with a node helper can have a NodeAttachment")
	if len(reasons) > 0 {
		text := strings.Join(reasons[:min(len(reasons), maxUnconfirmed)], "; ")
		if more := len(reasons) - maxUnconfirmed; more > 0 {
			text += fmt.Sprintf("; and %d more", more)
		}
		c = condition.New(metav1.ConditionFalse, "NotAttached", "%s", text)
	}
	c.Type = v1alpha1.ConditionNodesAttached
	return c
}
