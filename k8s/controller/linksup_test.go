package controller

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// The status of a peering has the last report of a gateway, also if that is of a pod that
// was replaced.
func TestALinkCountsForThePodThatHasIt(t *testing.T) {
	at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: noon.Add(d)} }
	for _, c := range []struct {
		what   string
		change func(*corev1.Pod, *v1alpha1.LinkStatus)
		want   bool
	}{
		{"a handshake after the pod's start", func(*corev1.Pod, *v1alpha1.LinkStatus) {}, true},
		{"the link is down", func(_ *corev1.Pod, l *v1alpha1.LinkStatus) { l.Up = false }, false},
		{"of another gateway", func(_ *corev1.Pod, l *v1alpha1.LinkStatus) { l.Local = "b-1" }, false},
		{"of the earlier pod", func(_ *corev1.Pod, l *v1alpha1.LinkStatus) { l.LastHandshake = at(-time.Second) }, false},
		{"no handshake", func(_ *corev1.Pod, l *v1alpha1.LinkStatus) { l.LastHandshake = nil }, false},
		{"the node's clock is behind that of the API server", func(p *corev1.Pod, _ *v1alpha1.LinkStatus) { p.CreationTimestamp = *at(time.Hour) }, true},
		{"the container does not run", func(p *corev1.Pod, _ *v1alpha1.LinkStatus) { p.Status.Conditions[0].Reason = "ContainersNotReady" }, false},
		{"the pod is ready", func(p *corev1.Pod, _ *v1alpha1.LinkStatus) { p.Status.Conditions[0].Status = corev1.ConditionTrue }, true},
		{"the pod is being deleted", func(p *corev1.Pod, _ *v1alpha1.LinkStatus) { p.DeletionTimestamp = at(0) }, false},
	} {
		pod := gatewayPod("b-0", corev1.ConditionFalse)
		pod.Status.StartTime, pod.Status.Conditions[0].Reason = at(0), "ReadinessGatesNotReady"
		link := v1alpha1.LinkStatus{Local: "b-0", Remote: "a-0", Up: true, LastHandshake: at(0)}
		c.change(pod, &link)
		if got := linkUp(&v1alpha1.Peering{Status: v1alpha1.PeeringStatus{Links: []v1alpha1.LinkStatus{link}}}, pod); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

func TestGatewaysLeaveLostNodesSoonUnlessTheInstallationSaysOtherwise(t *testing.T) {
	seconds := int64(300)
	for what, c := range map[string]struct {
		others []corev1.Toleration
		want   int
	}{
		"none":                {nil, 2},
		"another taint":       {[]corev1.Toleration{{Key: "edge", Operator: corev1.TolerationOpExists}}, 2},
		"only scheduling":     {[]corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}, 2},
		"one of the two":      {[]corev1.Toleration{{Key: "node.kubernetes.io/unreachable", Operator: corev1.TolerationOpExists, TolerationSeconds: &seconds}}, 1},
		"every taint forever": {[]corev1.Toleration{{Operator: corev1.TolerationOpExists}}, 0},
	} {
		got := podTemplate(inGateways(&corev1.PodTemplateSpec{Spec: corev1.PodSpec{Tolerations: c.others}}), plainPeering()).Spec.Tolerations
		added := got[len(c.others):]
		if len(added) != c.want {
			t.Errorf("%s: %v is added", what, added)
		}
		for _, one := range added {
			if *one.TolerationSeconds != 10 || one.Effect != corev1.TaintEffectNoExecute {
				t.Errorf("%s: %v", what, one)
			}
		}
	}
}
