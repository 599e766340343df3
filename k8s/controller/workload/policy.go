package workload

import (
	"net/netip"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"strait.dev/strait/k8s/api/cilium"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/k8s/install"
)

// NetworkPolicy allows overlay packets to the gateways of a peering only from nodes.
// WireGuard is open to every source, because it answers only known keys, and so is the health
// port of a LoadBalancer Service, which says only that the gateway runs. All pods may read
// the metrics. Egress is not restricted: the CIDRs that gateways forward to and the
// remote endpoints change too often.
//
// Without node helpers, the ports that stand for imported Services are open to all pods
// except gateways: a gateway connects to pods for its remote cluster, which must not reach
// other remote clusters in this way.
func NetworkPolicy(g Gateways, p *v1alpha1.Peering, nodes []netip.Prefix) *networkingv1.NetworkPolicy {
	var fromNodes []networkingv1.NetworkPolicyPeer
	for _, node := range nodes {
		fromNodes = append(fromNodes, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: node.String()}})
	}
	anyPod := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}}
	ingress := []networkingv1.NetworkPolicyIngressRule{
		{Ports: []networkingv1.NetworkPolicyPort{policyPort(corev1.ProtocolUDP, wireGuardPort)}},
		{Ports: []networkingv1.NetworkPolicyPort{policyPort(corev1.ProtocolTCP, httpPort)}, From: append([]networkingv1.NetworkPolicyPeer{anyPod}, fromNodes...)},
	}
	if p.Spec.Gateway.Service.Type == corev1.ServiceTypeLoadBalancer { // its addresses are not known
		ingress = append(ingress, networkingv1.NetworkPolicyIngressRule{Ports: []networkingv1.NetworkPolicyPort{policyPort(corev1.ProtocolTCP, healthPort)}})
	}
	if len(fromNodes) > 0 { // a rule without sources would match every source
		ingress = append(ingress, networkingv1.NetworkPolicyIngressRule{
			Ports: []networkingv1.NetworkPolicyPort{policyPort(corev1.ProtocolUDP, genevePort), policyPort(corev1.ProtocolUDP, vxlanPort)},
			From:  fromNodes,
		})
	}
	if g.WithoutNodes {
		noGateway := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}, PodSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: PeeringLabel, Operator: metav1.LabelSelectorOpDoesNotExist}},
		}}
		ingress = append(ingress, networkingv1.NetworkPolicyIngressRule{
			Ports: []networkingv1.NetworkPolicyPort{servicePorts(corev1.ProtocolTCP), servicePorts(corev1.ProtocolUDP)},
			From:  []networkingv1.NetworkPolicyPeer{noGateway},
		})
	}
	return &networkingv1.NetworkPolicy{
		ObjectMeta: ObjectMeta(g, p, p.Name),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: selector(p)},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     ingress,
		},
	}
}

// maxSources is the maximum number of additional sources of one node: one of each IP family
// for the gateways on the node, and for those on others.
const maxSources = 4

// FrameSources returns the sources of overlay packets: the nodes' own addresses, and the
// additional ones that nodes report for gateways. A node is not believed without limit: it
// cannot report the address of another node, nor so many that they would cover others'.
func FrameSources(nodes []netip.Prefix, attachments []*v1alpha1.NodeAttachment) []netip.Prefix {
	owners := make(map[netip.Addr]string)
	for _, a := range attachments {
		for _, address := range slices.Concat(cidrs.Addrs(a.Spec.UnderlayAddresses), cidrs.AttachedAddresses(a)) {
			owners[address] = a.Name
		}
	}
	var more []netip.Prefix
	for _, a := range attachments {
		var own []netip.Prefix
		for _, g := range a.Status.Gateways {
			from, err := netip.ParseAddr(string(g.Source))
			if owner := owners[from]; err == nil && cidrs.Ordinary(cidrs.Single(from)) && (owner == "" || owner == a.Name) {
				own = append(own, cidrs.Single(from))
			}
		}
		own = slices.Compact(cidrs.Sorted(own))
		more = append(more, own[:min(len(own), maxSources)]...)
	}
	if len(more) == 0 {
		return nodes
	}
	return cidrs.Covered(append(more, nodes...), cidrs.MaxNodeCIDRs)
}

func policyPort(protocol corev1.Protocol, number int32) networkingv1.NetworkPolicyPort {
	return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: new(intstr.FromInt32(number))}
}

func servicePorts(protocol corev1.Protocol) networkingv1.NetworkPolicyPort {
	p := policyPort(protocol, install.FirstServicePort)
	p.EndPort = new(int32(install.LastServicePort))
	return p
}

// CiliumNetworkPolicy allows nodes to send overlay packets to the gateways of a peering and
// to read their metrics: Cilium's address blocks match no nodes unless it is configured to.
// Policies add up, so it needs no other rule of networkPolicy.
func CiliumNetworkPolicy(g Gateways, peering *v1alpha1.Peering) *cilium.CiliumNetworkPolicy {
	ports := []cilium.Port{{Port: strconv.Itoa(httpPort), Protocol: "TCP"}}
	if !g.WithoutNodes {
		ports = append(ports, cilium.Port{Port: strconv.Itoa(genevePort), Protocol: "UDP"}, cilium.Port{Port: strconv.Itoa(vxlanPort), Protocol: "UDP"})
	}
	return &cilium.CiliumNetworkPolicy{
		ObjectMeta: ObjectMeta(g, peering, peering.Name),
		Spec: cilium.Spec{
			EndpointSelector: metav1.LabelSelector{MatchLabels: selector(peering)},
			Ingress: []cilium.Ingress{{
				FromEntities: []string{cilium.Host, cilium.RemoteNode},
				ToPorts:      []cilium.Ports{{Ports: ports}},
			}},
		},
	}
}
