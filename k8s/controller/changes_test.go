package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

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

func TestAnEvictionOfAGatewayWakesAPass(t *testing.T) {
	was := aGatewayPod("b-0", corev1.ConditionFalse)
	was.Status.PodIPs = []corev1.PodIP{{IP: "10.0.1.9"}}
	is := was.DeepCopy()
	is.Status.Phase = corev1.PodRunning
	if !samePod(was, is) {
		t.Error("a pod that starts wakes a pass")
	}
	if is.Status.Phase = corev1.PodFailed; samePod(was, is) {
		t.Error("a pod that was evicted wakes none")
	}
}
