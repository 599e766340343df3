package controller

import (
	"testing"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func TestChangesOfPodsWakeNoPass(t *testing.T) {
	was := &v1alpha1.NodeAttachment{Spec: v1alpha1.NodeAttachmentSpec{Index: 1, PodCIDRs: []v1alpha1.CIDR{"10.0.1.0/24"}}}
	is := was.DeepCopy()
	is.Spec.PodAddresses = []v1alpha1.CIDR{"10.0.100.1/32"}
	if !sameAttachment(was, is) {
		t.Error("addresses of pods wake a pass")
	}
	is.Spec.PodCIDRs = nil
	if sameAttachment(was, is) {
		t.Error("podCIDRs wake none")
	}
}
