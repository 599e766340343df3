package trace

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/internal/localsocket"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/node"
	"strait.dev/strait/operate/operator"
)

// Asked are the queries of a trace to a running cluster.
type Asked interface {
	// Pod returns the pod with that name, nil if there is none.
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
	// PodsOn returns the pods of a node.
	PodsOn(ctx context.Context, node string) ([]corev1.Pod, error)
	// Way queries the kernel of a node; see node.FindWay.
	Way(ctx context.Context, node string, to, from netip.Addr) (*node.Way, error)
	// Gateway queries what a gateway would do with a packet.
	Gateway(ctx context.Context, name string, q localsocket.TraceQuestion) (*localsocket.TraceAnswer, error)
}

// Side is one of the clusters, as of the start of the trace.
type Side struct {
	ID       string // the cluster's
	Network  *v1alpha1.ClusterNetwork
	Peerings []v1alpha1.Peering
	Nodes    []v1alpha1.NodeAttachment
	Asked
}

// Open reads the objects that a trace needs of a cluster. asked answers further queries.
func Open(ctx context.Context, c operator.Cluster, asked Asked) (*Side, error) {
	n, peerings, err := c.NetworkAndPeerings(ctx)
	if err != nil {
		return nil, err
	}
	s := &Side{ID: string(n.Status.ClusterID), Network: n, Peerings: peerings, Asked: asked}
	s.Nodes, err = c.NodeAttachments(ctx)
	return s, err
}

func (s *Side) withoutNodes() bool { return s.Network != nil && s.Network.Status.WithoutNodes }

type gatewayRef struct {
	peering *v1alpha1.Peering
	*v1alpha1.GatewayStatus
}

func (e gatewayRef) known() bool { return e.GatewayStatus != nil }

// gateway returns the side's first gateway for which is returns true.
func (s *Side) gateway(is func(*v1alpha1.Peering, *v1alpha1.GatewayStatus) bool) gatewayRef {
	for i := range s.Peerings {
		p := &s.Peerings[i]
		for j := range p.Status.Gateways {
			if g := &p.Status.Gateways[j]; is(p, g) {
				return gatewayRef{p, g}
			}
		}
	}
	return gatewayRef{}
}

func (s *Side) gatewayAt(internal netip.Addr) gatewayRef {
	return s.gateway(func(_ *v1alpha1.Peering, g *v1alpha1.GatewayStatus) bool { return has(g.InternalAddresses, internal) })
}

func (s *Side) gatewayOfPod(address netip.Addr) gatewayRef {
	return s.gateway(func(_ *v1alpha1.Peering, g *v1alpha1.GatewayStatus) bool { return has(g.PodAddresses, address) })
}

func (s *Side) gatewayOf(key string) gatewayRef {
	return s.gateway(func(_ *v1alpha1.Peering, g *v1alpha1.GatewayStatus) bool {
		return key != "" && (string(g.PublicKey) == key || string(g.NextPublicKey) == key)
	})
}

// gatewayFor returns a gateway that could forward packets to a remote address, if the node
// cannot be queried: the first with a link that is up, or else the first.
func (s *Side) gatewayFor(to netip.Addr) (e gatewayRef, remote bool) {
	of := func(p *v1alpha1.Peering) bool {
		is := slices.ContainsFunc(slices.Concat(p.Status.Prefixes, p.Status.ExternalPrefixes), func(seen v1alpha1.SeenPrefix) bool {
			return within([]v1alpha1.CIDR{seen.SeenAs}, to)
		})
		remote = remote || is
		return is
	}
	e = s.gateway(func(p *v1alpha1.Peering, g *v1alpha1.GatewayStatus) bool {
		return of(p) && g.LinkUp
	})
	if !e.known() {
		e = s.gateway(func(p *v1alpha1.Peering, _ *v1alpha1.GatewayStatus) bool { return of(p) })
	}
	return e, remote
}

// grantsNodes reports whether the remote cluster of a gateway may open connections to nodes.
func (s *Side) grantsNodes(gateway string) bool {
	of := s.gateway(func(_ *v1alpha1.Peering, g *v1alpha1.GatewayStatus) bool { return g.Name == gateway })
	return of.known() && of.peering.Spec.LocalNodes == v1alpha1.LocalNodesAllow
}

// attachment returns the NodeAttachment of a node, nil if there is none.
func (s *Side) attachment(node string) *v1alpha1.NodeAttachment {
	for i := range s.Nodes {
		if s.Nodes[i].Name == node {
			return &s.Nodes[i]
		}
	}
	return nil
}

// keepsSource reports whether packets with that source keep it on the path to gateways.
func (s *Side) keepsSource(node string, source netip.Addr) bool {
	a := s.attachment(node)
	return within(s.Network.Status.PodCIDRs, source) || a != nil && within(a.Spec.PodCIDRs, source)
}

// internal returns the node's internal address of the IP family of another address.
func (s *Side) internal(node string, as netip.Addr) netip.Addr {
	if a := s.attachment(node); a != nil {
		return sameFamily(a.Spec.InternalAddresses, as)
	}
	return netip.Addr{}
}

// nodeGateway returns the state that a node reports for a gateway, nil if it reports none.
func (s *Side) nodeGateway(node, gateway string) *v1alpha1.NodeGateway {
	a := s.attachment(node)
	if a == nil {
		return nil
	}
	for i := range a.Status.Gateways {
		if a.Status.Gateways[i].Name == gateway {
			return &a.Status.Gateways[i]
		}
	}
	return nil
}

// sameFamily returns the first of the addresses that has the IP family of another address.
func sameFamily(ips []v1alpha1.IP, as netip.Addr) netip.Addr {
	for _, a := range cidrs.Addrs(ips) {
		if a.Is4() == as.Is4() {
			return a
		}
	}
	return netip.Addr{}
}

func has(ips []v1alpha1.IP, address netip.Addr) bool {
	return slices.Contains(cidrs.Addrs(ips), address)
}

func within(ranges []v1alpha1.CIDR, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(c v1alpha1.CIDR) bool {
		p, err := netip.ParsePrefix(string(c))
		return err == nil && p.Contains(a)
	})
}
