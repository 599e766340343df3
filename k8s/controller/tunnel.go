package controller

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// linksUp are the links that are up, of gateways that still run: what a gateway said last
// says nothing after it went.
func (r *report) linksUp(peering *v1alpha1.Peering) (up []v1alpha1.LinkStatus) {
	names := gatewayNames(peering)
	for _, l := range peering.Status.Links {
		if l.Up && r.ready[l.Local] && slices.Contains(names, l.Local) {
			up = append(up, l)
		}
	}
	return up
}

// tunnelUp is the condition TunnelUp.
func (r *report) tunnelUp(peering *v1alpha1.Peering, s *v1alpha1.PeeringStatus) metav1.Condition {
	up, remote, names := r.linksUp(peering), r.remotes[peering.Name], gatewayNames(peering)
	was := meta.FindStatusCondition(peering.Status.Conditions, v1alpha1.ConditionTunnelUp)
	const lost = "Lost"
	switch {
	case len(up) == 1:
		return condition(metav1.ConditionTrue, "LinkUp", "1 link is up")
	case len(up) > 0:
		return condition(metav1.ConditionTrue, "LinkUp", "%d links are up", len(up))
	case len(remote.Gateways) == 0 && len(peering.Spec.Peers) > 0:
		return condition(metav1.ConditionFalse, "NoPeers", "the invite has ended; create another one, or write the remote cluster's gateways to spec.peers")
	case len(remote.Gateways) == 0:
		return condition(metav1.ConditionFalse, "NoPeers", "no gateway of the remote cluster is known; write its gateways to spec.peers, as status.gateways has them in the Peering there")
	case !slices.ContainsFunc(names, func(name string) bool { return r.ready[name] }):
		return condition(metav1.ConditionFalse, "NoGatewayReady", "%s", r.notReady(names))
	case was != nil && (was.Status == metav1.ConditionTrue || was.Reason == lost):
		since := r.now
		if was.Reason == lost {
			since = was.LastTransitionTime.Time
		}
		return condition(metav1.ConditionFalse, lost, "no gateway of the remote cluster answers since %s; see whether its gateways run, and whether UDP still passes to %s",
			since.UTC().Format(time.RFC3339), r.endpointToCheck(remote, s))
	case len(remote.Calls()) == 0 && !hasEndpoint(s):
		return condition(metav1.ConditionFalse, "NoEndpoint", "%s", noEndpointRemedy(peering))
	case slices.ContainsFunc(peering.Status.Links, func(l v1alpha1.LinkStatus) bool { return l.LastHandshake != nil && r.ready[l.Local] }):
		return condition(metav1.ConditionFalse, "NoAnswer", "keys are agreed on, but no probe comes back; see whether the gateway of the remote cluster runs a version of Strait that works with this one, and its log")
	}
	return condition(metav1.ConditionFalse, "NoHandshake", "no gateway of the remote cluster has answered yet; see whether UDP passes to %s, and whether the Peering there has in spec.peers the public keys that status.gateways has here",
		r.endpointToCheck(remote, s))
}

// where is what one of the two sides calls, for people.
func (r *report) endpointToCheck(remote peering.Remote, s *v1alpha1.PeeringStatus) string {
	if there := remote.Calls(); len(there) > 0 {
		return string(there[0])
	}
	for _, g := range s.Gateways {
		if len(g.Endpoints) > 0 {
			return fmt.Sprintf("%s, where the remote cluster is to call gateway %s", g.Endpoints[0], g.Name)
		}
	}
	return "the gateways"
}

// hasEndpoint reports whether the remote cluster can call a gateway.
func hasEndpoint(s *v1alpha1.PeeringStatus) bool {
	return slices.ContainsFunc(s.Gateways, func(g v1alpha1.GatewayStatus) bool { return len(g.Endpoints) > 0 })
}

// noEndpointRemedy says what to do where neither side has an endpoint.
func noEndpointRemedy(peering *v1alpha1.Peering) string {
	switch service := peering.Spec.Gateway.Service.Type; service {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		return fmt.Sprintf("the %s Services of the gateways have no address yet; see why, with `kubectl describe service`, or let this side call: write the endpoint of a remote gateway to spec.peers", service)
	}
	return "neither side calls the other: one of the two must be called, so use NodePort or LoadBalancer in spec.gateway.service.type here or there, and write its endpoint to spec.peers of the other"
}

// pathMTUSettleTime is how long a link that came up may take to find out what crosses it.
const pathMTUSettleTime = 30 * time.Second

// pathMTU is the condition PathMTU. It needs TunnelUp.
func (r *report) pathMTU(peering *v1alpha1.Peering, s *v1alpha1.PeeringStatus) metav1.Condition {
	up := r.linksUp(peering)
	var largest int32
	for _, l := range up {
		largest = max(largest, l.PathMTU)
	}
	was := meta.FindStatusCondition(peering.Status.Conditions, v1alpha1.ConditionPathMTU)
	tunnel := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionTunnelUp)
	const measuring = "Measuring"
	switch {
	case len(up) == 0 || s.MTU == 0:
		return condition(metav1.ConditionUnknown, "NoLink", "no link is up, so that nothing crosses")
	case largest >= s.MTU:
		return condition(metav1.ConditionTrue, "FullSize", "packets of %d bytes cross", s.MTU)
	case was == nil || was.Status == metav1.ConditionTrue ||
		was.Status == metav1.ConditionUnknown && r.now.Sub(laterTransition(was, tunnel)) < pathMTUSettleTime:
		return condition(metav1.ConditionUnknown, measuring, "the link is not known yet to carry packets of %d bytes", s.MTU)
	case largest == 0:
		return condition(metav1.ConditionFalse, "Smaller", "packets of %d bytes do not cross, nor do smaller ones that were tried; let ICMP and fragments pass between the gateways, or set spec.overlay.mtu of ClusterNetwork %s to less on both sides",
			s.MTU, v1alpha1.ClusterNetworkName)
	}
	return condition(metav1.ConditionFalse, "Smaller", "packets of %d bytes do not cross, the largest that did has %d; set spec.overlay.mtu of ClusterNetwork %s to %d on both sides, or let ICMP and fragments pass between the gateways",
		s.MTU, largest, v1alpha1.ClusterNetworkName, largest)
}

// laterTransition is when the later of two conditions became what it is.
func laterTransition(a, b *metav1.Condition) time.Time {
	if a.LastTransitionTime.Before(&b.LastTransitionTime) {
		a = b
	}
	return a.LastTransitionTime.Time
}
