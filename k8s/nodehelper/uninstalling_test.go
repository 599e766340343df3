package nodehelper

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/node"
)

// While the condition Released is true, the uninstall command relies on it, and nothing may
// be set up.
func TestNothingIsSetUpWhileTheNodeSaysThatItHasNothing(t *testing.T) {
	network := func(annotations map[string]string) *v1alpha1.ClusterNetwork {
		return &v1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
	}
	asked := network(map[string]string{v1alpha1.UninstallAnnotation: ""})
	node := func(status metav1.ConditionStatus) *v1alpha1.NodeAttachment {
		return &v1alpha1.NodeAttachment{Status: v1alpha1.NodeAttachmentStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReleased, Status: status}}}}
	}
	for _, c := range []struct {
		name       string
		networks   []*v1alpha1.ClusterNetwork // as they are seen, one after the other
		attachment *v1alpha1.NodeAttachment
		now, may   bool
	}{
		{"no ClusterNetwork yet", []*v1alpha1.ClusterNetwork{nil}, nil, false, false},
		{"no uninstall is requested", []*v1alpha1.ClusterNetwork{network(nil)}, &v1alpha1.NodeAttachment{}, false, true},
		{"asked", []*v1alpha1.ClusterNetwork{asked}, &v1alpha1.NodeAttachment{}, true, true},
		{"asked, and done", []*v1alpha1.ClusterNetwork{asked}, node(metav1.ConditionTrue), true, true},
		{"asked no more, and the node has not said so", []*v1alpha1.ClusterNetwork{asked, network(nil)}, node(metav1.ConditionTrue), false, false},
		{"asked no more, before it was done", []*v1alpha1.ClusterNetwork{asked, network(nil)}, node(metav1.ConditionFalse), false, true},
		{"asked, and the object is gone", []*v1alpha1.ClusterNetwork{asked, nil}, nil, true, true},
		{"the object was gone for a moment", []*v1alpha1.ClusterNetwork{network(nil), nil}, nil, false, true},
	} {
		var l uninstalling
		now := false
		for _, n := range c.networks {
			now = l.observe(n)
		}
		if may := l.mayChange(c.attachment); now != c.now || may != c.may {
			t.Errorf("%s: leaves %v, may change the kernel %v; want %v, %v", c.name, now, may, c.now, c.may)
		}
	}
}

func TestANodeThatCannotLetGoSaysWhy(t *testing.T) {
	s := status(output{desired: node.Desired{Nothing: true}}, "node: delete link strait-1: busy", nil, nil)
	is := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionReleased)
	if is.Status != metav1.ConditionFalse || is.Reason != reasonKernel || !strings.Contains(is.Message, "busy") {
		t.Errorf("%+v", is)
	}
}
