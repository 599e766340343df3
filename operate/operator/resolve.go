package operator

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/nat"
)

// Meaning is one interpretation of an address in a cluster.
type Meaning struct {
	Kind string `json:"kind"` // see the constants
	// The object that it belongs to, if any: a node, a gateway, a Peering, an
	// AddressMapping.
	Of string `json:"of,omitempty"`
	// The translated address: in the remote cluster, or the target of a mapping.
	To string `json:"to,omitempty"`
	// The CIDR that contains it.
	Range v1alpha1.CIDR `json:"range,omitempty"`
	Text  string        `json:"text"` // human-readable description
}

// The kinds of meanings.
const (
	KindRemotePod       = "remote-pod"       // a mapped address of a pod of a remote cluster
	KindRemoteExternal  = "remote-external"  // a mapped address of a node, gateway or mapped host of a remote cluster
	KindNodePods        = "node-pods"        // of a node's pods
	KindNode            = "node"             // a node's own address
	KindNodeInternal    = "node-internal"    // a node's address on the overlay
	KindNodeExternal    = "node-external"    // a node's external address
	KindGatewayPod      = "gateway-pod"      // a gateway's pod
	KindGatewayInternal = "gateway-internal" // a gateway's address on the overlay
	KindGatewayExternal = "gateway-external" // a gateway's external address
	KindMapping         = "mapping"          // an AddressMapping's external address
	KindService         = "service"          // in a Service CIDR
	KindPods            = "pods"             // in a pod CIDR, but of no known node
	KindNodes           = "nodes"            // in a node CIDR, but of no known node
	KindPool            = "pool"             // in one of Strait's pools, not allocated
	KindReserved        = "reserved"         // in a reserved CIDR
)

// Resolved is the meaning of an address.
type Resolved struct {
	Address   string             `json:"address"`
	ClusterID v1alpha1.ClusterID `json:"clusterID"` // of the cluster in which the address was resolved
	Meanings  []Meaning          `json:"meanings"`  // most specific first
}

// Resolve returns the meaning of an address in a cluster.
func Resolve(ctx context.Context, c Cluster, address netip.Addr) (*Resolved, error) {
	n, peerings, err := c.NetworkAndPeerings(ctx)
	if err != nil {
		return nil, err
	}
	nodes, err := c.NodeAttachments(ctx)
	if err != nil {
		return nil, err
	}
	mappings, err := List(ctx, c, "AddressMappings", c.Client.AddressMappings(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	r := &Resolved{Address: address.String(), ClusterID: n.Status.ClusterID}
	r.Meanings = meanings(address, n, peerings, nodes, mappings.Items)
	return r, nil
}

// finder collects the meanings of one address.
type finder struct {
	address netip.Addr
	found   []Meaning
}

func meanings(a netip.Addr, n *v1alpha1.ClusterNetwork, peerings []v1alpha1.Peering, nodes []v1alpha1.NodeAttachment, mappings []v1alpha1.AddressMapping) []Meaning {
	f := &finder{address: a, found: []Meaning{}}
	for i := range peerings {
		f.peering(&peerings[i])
	}
	for i := range nodes {
		f.node(&nodes[i])
	}
	for _, m := range mappings {
		if f.hasAddress([]v1alpha1.IP{m.Spec.External}) {
			f.add(Meaning{Kind: KindMapping, Of: m.Name, To: string(m.Spec.Target), Text: fmt.Sprintf("AddressMapping %s, mapped to %s", m.Name, m.Spec.Target)})
		}
	}
	if len(f.found) > 0 {
		return f.found
	}
	for _, list := range []struct {
		cidrs      []v1alpha1.CIDR
		kind, text string
	}{
		{n.Status.ServiceCIDRs, KindService, "in the Service CIDR %s of this cluster"},
		{n.Status.PodCIDRs, KindPods, "in the pod CIDR %s of this cluster, but in the podCIDRs of no node"},
		{n.Status.NodeCIDRs, KindNodes, "in the node CIDR %s of this cluster, but of no attached node"},
		{n.Spec.InternalCIDRs, KindPool, "in the internal CIDR %s, not allocated"},
		{n.Spec.ExternalCIDRs, KindPool, "in the external CIDR %s, not allocated"},
		{n.Spec.RemapPools, KindPool, "in the remap pool %s, not allocated"},
		{n.Spec.ReservedCIDRs, KindReserved, "in the reserved CIDR %s, which Strait does not manage"},
	} {
		if cidr, ok := f.in(list.cidrs); ok {
			f.add(Meaning{Kind: list.kind, Range: cidr, Text: fmt.Sprintf(list.text, cidr)})
			break // pools may overlap
		}
	}
	return f.found
}

func (f *finder) peering(p *v1alpha1.Peering) {
	for _, list := range []struct {
		seen        []v1alpha1.SeenPrefix
		kind, whose string
	}{{p.Status.Prefixes, KindRemotePod, "a pod"}, {p.Status.ExternalPrefixes, KindRemoteExternal, "a node, gateway or mapped host"}} {
		for _, s := range list.seen {
			there, ok := mapped(f.address, s.SeenAs, s.CIDR)
			if !ok {
				continue
			}
			f.add(Meaning{Kind: list.kind, Of: p.Name, To: there.String(), Range: s.SeenAs,
				Text: fmt.Sprintf("%s of cluster %s, where its address is %s (Peering %s: %s is mapped to %s)", list.whose, remoteOf(p), there, p.Name, s.CIDR, s.SeenAs)})
		}
	}
	for _, g := range p.Status.Gateways {
		for _, list := range []struct {
			ips        []v1alpha1.IP
			kind, text string
		}{
			{g.InternalAddresses, KindGatewayInternal, "internal address of gateway %s of Peering %s on the overlay"},
			{g.ExternalAddresses, KindGatewayExternal, "external address of gateway %s of Peering %s for remote clusters"},
			{g.PodAddresses, KindGatewayPod, "pod address of gateway %s of Peering %s"},
		} {
			if f.hasAddress(list.ips) {
				f.add(Meaning{Kind: list.kind, Of: g.Name, Text: fmt.Sprintf(list.text, g.Name, p.Name)})
			}
		}
	}
}

func (f *finder) node(n *v1alpha1.NodeAttachment) {
	for _, list := range []struct {
		ips        []v1alpha1.IP
		kind, text string
	}{
		{n.Spec.InternalAddresses, KindNodeInternal, "internal address of node %s on the overlay"},
		{n.Spec.ExternalAddresses, KindNodeExternal, "external address of node %s for remote clusters"},
		{n.Spec.UnderlayAddresses, KindNode, "own address of node %s"},
	} {
		if f.hasAddress(list.ips) {
			f.add(Meaning{Kind: list.kind, Of: n.Name, Text: fmt.Sprintf(list.text, n.Name)})
		}
	}
	if cidr, ok := f.in(n.Spec.PodCIDRs); ok {
		f.add(Meaning{Kind: KindNodePods, Of: n.Name, Range: cidr, Text: fmt.Sprintf("in the podCIDR %[2]s of node %[1]s", n.Name, cidr)})
	}
}

func (f *finder) add(m Meaning) { f.found = append(f.found, m) }

func (f *finder) hasAddress(ips []v1alpha1.IP) bool {
	return slices.Contains(cidrs.Addrs(ips), f.address)
}

func (f *finder) in(ranges []v1alpha1.CIDR) (v1alpha1.CIDR, bool) {
	for _, text := range ranges {
		if p, err := netip.ParsePrefix(string(text)); err == nil && p.Contains(f.address) {
			return text, true
		}
	}
	return "", false
}

// remoteOf returns the remote cluster of a Peering for messages.
func remoteOf(p *v1alpha1.Peering) string {
	return cmp.Or(string(remoteID(p)), p.Name)
}

// SeenHere returns the address in a cluster of a remote address of a Peering: the inverse
// of Resolve. Its Address is the one to use in the cluster c.
func SeenHere(ctx context.Context, c Cluster, name string, remote netip.Addr) (*Resolved, error) {
	n, all, err := c.NetworkAndPeerings(ctx)
	if err != nil {
		return nil, err
	}
	p := named(all, name)
	if p == nil {
		return nil, fmt.Errorf("%s: %w", c.Name, noPeering(name, all))
	}
	here, err := seenHere(p, remote)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	r := &Resolved{Address: here.String(), ClusterID: n.Status.ClusterID}
	r.Meanings = meanings(here, n, []v1alpha1.Peering{*p}, nil, nil)
	return r, nil
}

// seenHere returns the local address that a remote address is mapped to.
func seenHere(p *v1alpha1.Peering, remote netip.Addr) (netip.Addr, error) {
	for _, s := range slices.Concat(p.Status.Prefixes, p.Status.ExternalPrefixes) {
		if here, ok := mapped(remote, s.CIDR, s.SeenAs); ok {
			return here, nil
		}
	}
	return netip.Addr{}, fmt.Errorf("%s is in no mapped CIDR of cluster %s; strait status %s lists them", remote, remoteOf(p), p.Name)
}

// mapped returns an address in one CIDR as it is mapped to another of the same length.
func mapped(a netip.Addr, from, to v1alpha1.CIDR) (netip.Addr, bool) {
	p, err := netip.ParsePrefix(string(from))
	q, err2 := netip.ParsePrefix(string(to))
	if err != nil || err2 != nil || !p.Contains(a) {
		return netip.Addr{}, false
	}
	m, err := nat.NewMap(p, q)
	if err != nil {
		return netip.Addr{}, false
	}
	return m.Translate(a), true
}
