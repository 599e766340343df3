package controller

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/condition"
	"strait.dev/strait/k8s/peering"
)

func (r *report) tunnelUp(peering *v1alpha1.Peering, s *v1alpha1.PeeringStatus) metav1.Condition {
	up, remote, names := r.pods.linksUp(peering), r.remotes[peering.Name], known(peering)
	was := meta.FindStatusCondition(peering.Status.Conditions, v1alpha1.ConditionTunnelUp)
	const lost = "Lost"
	switch {
	case len(up) == 1:
		return condition.New(metav1.ConditionTrue, "LinkUp", "1 link is up")
	case len(up) > 0:
		return condition.New(metav1.ConditionTrue, "LinkUp", "%d links are up", len(up))
	case len(remote.Gateways) == 0 && len(peering.Spec.Peers) > 0:
		return condition.New(metav1.ConditionFalse, "NoPeers", "the invite has expired; create a new one, or add the remote cluster's gateways to spec.peers")
	case len(remote.Gateways) == 0:
		return condition.New(metav1.ConditionFalse, "NoPeers", "no gateway of the remote cluster is known; add its gateways to spec.peers, from status.gateways of the remote cluster's Peering")
	case !slices.ContainsFunc(names, r.pods.ready):
		return condition.New(metav1.ConditionFalse, "NoGatewayReady", "%s", r.notReady(names))
	case slices.ContainsFunc(names, r.pods.unstable):
		return condition.New(metav1.ConditionFalse, "Unstable", "links to the remote cluster come up and go down too often, and are treated as down for up to %s; check the path between the gateways, and that those of the remote cluster keep running", pacedInterval)
	case was != nil && (was.Status == metav1.ConditionTrue || was.Reason == lost):
		since := r.now
		if was.Reason == lost {
			since = was.LastTransitionTime.Time
		}
		return condition.New(metav1.ConditionFalse, lost, "no gateway of the remote cluster has answered since %s; check that its gateways run, and that UDP still passes to %s",
			since.UTC().Format(time.RFC3339), r.endpointToCheck(remote, s))
	case len(remote.Calls()) == 0 && !hasEndpoint(s):
		return condition.New(metav1.ConditionFalse, "NoEndpoint", "%s", noEndpointRemedy(peering))
	case slices.ContainsFunc(names, r.pods.shaken):
		return condition.New(metav1.ConditionFalse, "NoAnswer", "the handshake succeeds, but probes are not answered; check the log of the remote cluster's gateway, and whether its version of Strait is compatible with this one")
	}
	return condition.New(metav1.ConditionFalse, "NoHandshake", "no gateway of the remote cluster has answered yet; check that UDP passes to %s, and that spec.peers of the remote cluster's Peering has the public keys in status.gateways of this one",
		r.endpointToCheck(remote, s))
}

// endpointToCheck names an endpoint that one of the two clusters connects to, for messages.
func (r *report) endpointToCheck(remote peering.Remote, s *v1alpha1.PeeringStatus) string {
	if there := remote.Calls(); len(there) > 0 {
		return string(there[0])
	}
	for _, g := range s.Gateways {
		if len(g.Endpoints) > 0 {
			return fmt.Sprintf("%s, at which the remote cluster connects to gateway %s", g.Endpoints[0], g.Name)
		}
	}
	return "the gateways"
}

func hasEndpoint(s *v1alpha1.PeeringStatus) bool {
	return slices.ContainsFunc(s.Gateways, func(g v1alpha1.GatewayStatus) bool { return len(g.Endpoints) > 0 })
}

func noEndpointRemedy(peering *v1alpha1.Peering) string {
	switch service := peering.Spec.Gateway.Service.Type; service {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		return fmt.Sprintf("the %s Services of the gateways have no address yet; run `kubectl describe service`, or let this cluster initiate the connection: set the endpoint of a remote gateway in spec.peers", service)
	}
	return "neither cluster accepts connections; set spec.gateway.service.type to NodePort or LoadBalancer in one of them, and its endpoint in spec.peers of the other"
}

// pathMTUSettleTime is the time that a link which came up has to determine its path MTU.
const pathMTUSettleTime = 30 * time.Second

// pathMTU returns the condition PathMTU. It needs TunnelUp.
func (r *report) pathMTU(peering *v1alpha1.Peering, s *v1alpha1.PeeringStatus) metav1.Condition {
	up := r.pods.linksUp(peering)
	var largest int32
	for _, l := range up {
		largest = max(largest, l.PathMTU)
	}
	was := meta.FindStatusCondition(peering.Status.Conditions, v1alpha1.ConditionPathMTU)
	tunnel := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionTunnelUp)
	const measuring = "Measuring"
	switch {
	case len(up) == 0 || s.MTU == 0:
		return condition.New(metav1.ConditionUnknown, "NoLink", "no link is up")
	case largest >= s.MTU:
		return condition.New(metav1.ConditionTrue, "FullSize", "packets of %d bytes pass", s.MTU)
	case was == nil || was.Status == metav1.ConditionTrue ||
		was.Status == metav1.ConditionUnknown && r.now.Sub(laterTransition(was, tunnel)) < pathMTUSettleTime:
		return condition.New(metav1.ConditionUnknown, measuring, "it is not known yet whether packets of %d bytes pass", s.MTU)
	case largest == 0:
		return condition.New(metav1.ConditionFalse, "Smaller", "packets of %d bytes do not pass, nor do smaller ones that were tried; allow ICMP and fragments between the gateways, or reduce spec.overlay.mtu of ClusterNetwork %s in both clusters",
			s.MTU, v1alpha1.ClusterNetworkName)
	}
	return condition.New(metav1.ConditionFalse, "Smaller", "packets of %d bytes do not pass, the largest that did has %d; set spec.overlay.mtu of ClusterNetwork %s to %d in both clusters, or allow ICMP and fragments between the gateways",
		s.MTU, largest, v1alpha1.ClusterNetworkName, largest)
}

func laterTransition(a, b *metav1.Condition) time.Time {
	if a.LastTransitionTime.Before(&b.LastTransitionTime) {
		a = b
	}
	return a.LastTransitionTime.Time
}
