package uninstall

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func TestNodesThatArePreparedFor(t *testing.T) {
	node := func(ready corev1.ConditionStatus) *corev1.Node {
		return &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
	}
	worked := metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}
	released := func(status metav1.ConditionStatus, why string) []metav1.Condition {
		return []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse}, {Type: v1alpha1.ConditionReleased, Status: status, Message: why}}
	}
	for _, c := range []struct {
		name string
		node *corev1.Node
		says []metav1.Condition
		want string
	}{
		{"is detached", node("True"), released("True", ""), "released"},
		{"is detached, and unreachable now", node("Unknown"), released("True", ""), "released"},
		{"is at it", node("True"), released("False", "delete link: busy"), "waiting: delete link: busy"},
		{"has not answered", node("True"), []metav1.Condition{worked}, "waiting: the node helper has not responded"},
		{"is not ready", node("Unknown"), []metav1.Condition{worked}, "lost: the node is not ready"},
		{"has no condition itself", &corev1.Node{}, []metav1.Condition{worked}, "lost: the node is not ready"},
		{"never had a helper", node("True"), nil, "nothing"},
		{"is no node any more", nil, []metav1.Condition{worked}, "nothing"},
	} {
		var all []corev1.Node
		if c.node != nil {
			c.node.Name = "n"
			all = append(all, *c.node)
		}
		n := classifyNodes([]v1alpha1.NodeAttachment{{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: v1alpha1.NodeAttachmentStatus{Conditions: c.says}}}, all)
		got := "nothing"
		switch {
		case len(n.released) > 0:
			got = "released"
		case len(n.waiting) > 0:
			got = "waiting: " + n.waiting[0].Why
		case len(n.lost) > 0:
			got = "lost: " + n.lost[0].Why
		}
		if !strings.HasPrefix(got, c.want) || len(n.released)+len(n.waiting)+len(n.lost) > 1 {
			t.Errorf("%s: %s, want %s", c.name, fmt.Sprint(n), c.want)
		}
	}
}
