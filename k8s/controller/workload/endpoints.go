package workload

import (
	"cmp"
	"hash/fnv"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/k8s/controller/nodeinfo"
	"strait.dev/strait/k8s/peering"
)

const (
	maxEndpoints = 16  // limit of the API
	maxHost      = 253 // bytes of a DNS name (RFC 1035, section 2.3.4)
	otherNodes   = 3   // whose node ports are listed in addition to the gateway's own node
)

// EndpointsOf returns the endpoints at which the remote cluster can reach a gateway of a
// peering, which runs on the node own, best first. There are none while its Service does not exist or has no address.
// The result does not depend on the order of the lists, which are not changed.
func EndpointsOf(peering *v1alpha1.Peering, gatewayName string, services []*corev1.Service, nodes []*corev1.Node, own string) []v1alpha1.Endpoint {
	i := slices.IndexFunc(services, func(s *corev1.Service) bool {
		return s.Name == gatewayName && s.Labels[PeeringLabel] == peering.Name && len(s.Spec.Ports) > 0
	})
	if i < 0 {
		return nil
	}
	service := services[i]
	port := service.Spec.Ports[0] // that of WireGuard
	var all endpointList
	switch service.Spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			all.add(ingress.IP, port.Port)
			all.add(ingress.Hostname, port.Port)
		}
	case corev1.ServiceTypeNodePort:
		entry := entryNodes(gatewayName, nodes, own)
		if i := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Name == own }); i >= 0 && service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
			entry = nodes[i : i+1] // other nodes drop what arrives at their port
		}
		for _, node := range entry {
			for _, address := range publicAddresses(node) {
				if hasFamily(service, address) {
					all.add(address.String(), port.NodePort)
				}
			}
		}
	default:
		for _, ip := range service.Spec.ExternalIPs {
			all.add(ip, port.Port)
		}
	}
	return all
}

// hasFamily reports whether a Service has node ports at addresses of this IP family. A
// Service of a dual-stack cluster has one family unless its policy demands both.
func hasFamily(s *corev1.Service, a netip.Addr) bool {
	family := corev1.IPv6Protocol
	if a.Is4() {
		family = corev1.IPv4Protocol
	}
	return slices.Contains(s.Spec.IPFamilies, family)
}

// endpointList holds unique endpoints up to the limit of the API.
type endpointList []v1alpha1.Endpoint

// add appends an endpoint that others can reach. Invalid endpoints are skipped: one that
// the API server rejects would keep the whole status from being written.
func (e *endpointList) add(host string, port int32) {
	if address, err := netip.ParseAddr(host); err == nil {
		if !cidrs.Ordinary(cidrs.Single(address)) {
			return
		}
		host = address.String()
	}
	host = strings.TrimSuffix(host, ".")
	one := v1alpha1.Endpoint(net.JoinHostPort(host, strconv.Itoa(int(port))))
	if len(*e) < maxEndpoints && len(host) <= maxHost && peering.IsEndpoint(one) && !slices.Contains(*e, one) {
		*e = append(*e, one)
	}
}

// Forwarding returns the nodes that forward what arrives at a node port: those on which node
// helpers may run, whatever their taints, and the node of the gateway. A virtual kubelet, or
// Fargate, forwards nothing.
func Forwarding(helpers *nodeinfo.Helpers, nodes []*corev1.Node, own string) (some []*corev1.Node) {
	for _, node := range nodes {
		if !nodeinfo.OnFargate(node) && (node.Name == own || helpers.Selects(node)) {
			some = append(some, node)
		}
	}
	return some
}

// entryNodes returns the node that runs a gateway, which is the shortest path, and a few
// other ready nodes, in case the gateway moves. They are chosen by rendezvous hashing, so
// that gateways choose different nodes, and a node that is added or removed changes at most
// one choice. Nodes that are excluded from load balancers are left out, unless the gateway
// runs on one and there is no other node.
func entryNodes(gatewayName string, nodes []*corev1.Node, own string) (entry []*corev1.Node) {
	type weighed struct {
		*corev1.Node
		weight uint64
	}
	var others []weighed
	var last *corev1.Node
	for _, node := range nodes {
		_, excluded := node.Labels[corev1.LabelNodeExcludeBalancers]
		switch {
		case node.Name == own && excluded:
			last = node
		case node.Name == own:
			entry = append(entry, node)
		case nodeinfo.Ready(node) && !excluded:
			others = append(others, weighed{node, weight(gatewayName, node.Name)})
		}
	}
	slices.SortFunc(others, func(a, b weighed) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.Name, b.Name))
	})
	for _, other := range others[:min(len(others), otherNodes)] {
		entry = append(entry, other.Node)
	}
	if len(entry) == 0 && last != nil {
		entry = append(entry, last)
	}
	return entry
}

func weight(gateway, node string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(gateway + "/" + node)) // never fails
	return h.Sum64()
}

func publicAddresses(node *corev1.Node) []netip.Addr {
	if external := nodeinfo.Addresses(node, corev1.NodeExternalIP); len(external) > 0 {
		return external
	}
	return nodeinfo.Addresses(node, corev1.NodeInternalIP)
}
