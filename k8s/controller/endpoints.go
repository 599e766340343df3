package controller

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
	"strait.dev/strait/k8s/peering"
)

const (
	maxEndpoints = 16  // as the API has it
	maxHost      = 253 // letters of a name (RFC 1035, section 2.3.4)
	otherNodes   = 3   // whose node ports are named beside that of the gateway's own node
)

// endpointsOf are where the remote cluster can call a gateway of a peering, best first.
// There are none while its Service is not there yet, or has no address yet. The order
// does not depend on that of the lists. It is pure; the lists stay as they are.
func endpointsOf(peering *v1alpha1.Peering, gatewayName string, services []*corev1.Service, nodes []*corev1.Node, pods []*corev1.Pod) []v1alpha1.Endpoint {
	i := slices.IndexFunc(services, func(s *corev1.Service) bool {
		return s.Name == gatewayName && s.Labels[peeringLabel] == peering.Name && len(s.Spec.Ports) > 0
	})
	if i < 0 {
		return nil
	}
	service := services[i]
	port := service.Spec.Ports[0] // there is one
	var all endpointList
	switch service.Spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		for _, ingress := range service.Status.LoadBalancer.Ingress {
			all.add(ingress.IP, port.Port)
			all.add(ingress.Hostname, port.Port)
		}
	case corev1.ServiceTypeNodePort:
		for _, node := range entryNodes(gatewayName, nodes, pods) {
			for _, address := range publicAddresses(node) {
				all.add(address.String(), port.NodePort)
			}
		}
	default:
		for _, ip := range service.Spec.ExternalIPs {
			all.add(ip, port.Port)
		}
	}
	return all
}

// endpointList is what the API takes: each once, and not too many.
type endpointList []v1alpha1.Endpoint

// add adds what others can call, and nothing else: one endpoint that the API does not
// take would keep the whole status from being written.
func (e *endpointList) add(host string, port int32) {
	if address, err := netip.ParseAddr(host); err == nil {
		if !ordinary(single(address)) {
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

// entryNodes are the node that runs a gateway, which is the shortest way, and a few other
// ready ones, in case it moves. Others are chosen by a hash, so that gateways choose
// different ones, and a node that comes or goes changes one choice at most.
func entryNodes(gatewayName string, nodes []*corev1.Node, pods []*corev1.Pod) (entry []*corev1.Node) {
	var own string
	for _, pod := range pods {
		if pod.Name == gatewayName {
			own = pod.Spec.NodeName
		}
	}
	type weighed struct {
		*corev1.Node
		weight uint64
	}
	var others []weighed
	for _, node := range nodes {
		switch {
		case node.Name == own:
			entry = append(entry, node)
		case nodeReady(node):
			others = append(others, weighed{node, weight(gatewayName, node.Name)})
		}
	}
	slices.SortFunc(others, func(a, b weighed) int {
		return cmp.Or(cmp.Compare(a.weight, b.weight), cmp.Compare(a.Name, b.Name))
	})
	for _, other := range others[:min(len(others), otherNodes)] {
		entry = append(entry, other.Node)
	}
	return entry
}

func weight(gateway, node string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(gateway + "/" + node)) // never fails
	return h.Sum64()
}

// nodeReady reports whether nothing says that a node is not ready.
func nodeReady(node *corev1.Node) bool {
	return !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}

// publicAddresses are a node's external addresses, or if it has none its internal ones.
func publicAddresses(node *corev1.Node) []netip.Addr {
	if external := nodeAddresses(node, corev1.NodeExternalIP); len(external) > 0 {
		return external
	}
	return nodeAddresses(node, corev1.NodeInternalIP)
}
