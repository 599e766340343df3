package controller

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

func TestALinkCountsForAGatewayThatRuns(t *testing.T) {
	for _, c := range []struct {
		what   string
		change func(*gatewayPod)
		want   bool
	}{
		{"the readiness gate is closed", func(*gatewayPod) {}, true},
		{"the pod is ready", func(p *gatewayPod) { p.Status.Conditions[0].Status = corev1.ConditionTrue }, true},
		{"the link is down", func(p *gatewayPod) { p.report.Links[0].Up = false }, false},
		{"one of two links is down", func(p *gatewayPod) {
			p.report.Links = append([]v1alpha1.LinkStatus{{Remote: "a-1"}}, p.report.Links...)
		}, true},
		{"no report of this pod", func(p *gatewayPod) { p.report = nil }, false},
		{"no pod", func(p *gatewayPod) { *p = gatewayPod{} }, false},
		{"the container does not run", func(p *gatewayPod) { p.Status.Conditions[0].Reason = "ContainersNotReady" }, false},
		{"the pod is being deleted", func(p *gatewayPod) { p.DeletionTimestamp = new(metav1.Now()) }, false},
	} {
		pod := gatewayPod{Pod: aGatewayPod("b-0", corev1.ConditionFalse), report: &v1alpha1.GatewayReportStatus{Links: []v1alpha1.LinkStatus{{Remote: "a-0", Up: true}}}}
		pod.Status.Conditions[0].Reason = "ReadinessGatesNotReady"
		c.change(&pod)
		if got := pod.linkUp(); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

func TestATemporaryGatewayIsPossibleWhereItCanGetALink(t *testing.T) {
	announced := []metav1.Condition{{Type: v1alpha1.ConditionAnnounced, Status: metav1.ConditionTrue}}
	initiates := []v1alpha1.Peer{{Name: "a-0", PublicKey: keyThere, Endpoint: "gw.example:51840"}}
	accepts := []v1alpha1.Peer{{Name: "a-0", PublicKey: keyThere}}
	for _, c := range []struct {
		what       string
		replicas   int32
		peers      []v1alpha1.Peer
		service    corev1.ServiceType
		conditions []metav1.Condition
		want       bool
	}{
		{"this cluster initiates connections", 1, initiates, corev1.ServiceTypeClusterIP, announced, true},
		{"it also accepts them", 1, initiates, corev1.ServiceTypeLoadBalancer, announced, true},
		{"it accepts them at a port of the nodes", 1, accepts, corev1.ServiceTypeNodePort, announced, true},
		{"it accepts them at a load balancer", 1, accepts, corev1.ServiceTypeLoadBalancer, announced, false},
		{"neither side does", 1, accepts, corev1.ServiceTypeClusterIP, announced, false},
		{"the remote cluster accepts no announcements", 1, initiates, corev1.ServiceTypeClusterIP, nil, false},
		{"there are two gateways", 2, initiates, corev1.ServiceTypeClusterIP, announced, false},
	} {
		p := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Status: v1alpha1.PeeringStatus{Conditions: c.conditions},
			Spec: v1alpha1.PeeringSpec{Peers: c.peers, Gateway: v1alpha1.GatewaySpec{Replicas: c.replicas, Service: v1alpha1.GatewayService{Type: c.service}}}}
		if got := canSurge(p, peering.RemoteOf(p, noon)); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
