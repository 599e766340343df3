package preflight

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"strait.dev/strait/internal/endpoint"
)

// addressesPerType is the number of node addresses of each type that are probed from the
// other cluster.
const addressesPerType = 2

// open exposes the UDP agent of a cluster, and returns its addresses.
func (c *agentGroup) open(ctx context.Context) ([]netip.AddrPort, error) {
	s, err := c.Service(ctx, udpAgent, udpAgent, corev1.ServiceTypeNodePort, corev1.ServicePort{
		Name: "echo", Protocol: corev1.ProtocolUDP, Port: endpoint.Port, TargetPort: intstr.FromInt32(endpoint.Port),
	})
	if err != nil {
		return nil, err
	}
	var at []netip.AddrPort
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeInternalIP} {
		n := 0
		for i := range c.facts.nodes {
			for _, a := range c.facts.nodes[i].Status.Addresses {
				if ip, err := netip.ParseAddr(a.Address); err == nil && a.Type == kind && n < addressesPerType {
					at = append(at, netip.AddrPortFrom(ip, uint16(s.Spec.Ports[0].NodePort)))
					n++
				}
			}
		}
	}
	if len(at) == 0 {
		return nil, fmt.Errorf("no node of %s has an address", c.facts.name)
	}
	return at, nil
}

// probeCluster sends UDP from one cluster to the other.
func probeCluster(ctx context.Context, from, to *agentGroup) crossProbe {
	is := crossProbe{from: from.facts.name, to: to.facts.name}
	at, err := to.open(ctx)
	if err != nil {
		is.err = err
		return is
	}
	results, err := from.probe(ctx, udpAgent, at)
	if err != nil {
		is.err = err
		return is
	}
	for i, r := range results {
		if r.Failure == "" {
			is.passes = append(is.passes, at[i].String())
		} else {
			is.unanswered = append(is.unanswered, fmt.Sprintf("%v (%s)", at[i], r.Detail))
		}
	}
	return is
}
