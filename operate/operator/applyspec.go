package operator

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// applySpec changes the spec of a Peering, and writes it if it differs. was is the current
// Peering, nil to create one.
func (c Cluster) applySpec(ctx context.Context, name string, was *v1alpha1.Peering, change func(*v1alpha1.PeeringSpec)) (*v1alpha1.Peering, error) {
	var spec v1alpha1.PeeringSpec
	if was != nil {
		if was.DeletionTimestamp != nil {
			return nil, fmt.Errorf("%s: Peering %s is being deleted; wait until it is deleted", c.Name, name)
		}
		was.Spec.DeepCopyInto(&spec)
	}
	change(&spec)
	if was != nil && equality.Semantic.DeepEqual(spec, was.Spec) {
		return was, nil
	}
	fields := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: managedFields(&spec)}
	if was != nil {
		fields.UID = was.UID // so that a Peering that was created in the meantime is not changed
	}
	ctx, cancel := c.within(ctx)
	defer cancel()
	is, err := c.Client.Peerings().Apply(ctx, fields, Manager)
	if err != nil {
		return nil, c.Failed("write Peering "+name, err)
	}
	c.changed(is, was != nil)
	return is, nil
}

// managedFields returns the fields of a spec that commands manage. All others, for instance
// seenAs or the Secret of a preshared key, stay with their field manager.
func managedFields(spec *v1alpha1.PeeringSpec) v1alpha1.PeeringSpec {
	fields := v1alpha1.PeeringSpec{
		ClusterID: spec.ClusterID, AcceptPrefixes: spec.AcceptPrefixes, LocalPods: spec.LocalPods, InviteUntil: spec.InviteUntil,
		Prefixes: plain(spec.Prefixes), ExternalPrefixes: plain(spec.ExternalPrefixes),
		Gateway: v1alpha1.GatewaySpec{Replicas: spec.Gateway.Replicas, Service: v1alpha1.GatewayService{Type: spec.Gateway.Service.Type}},
	}
	for _, p := range spec.Peers {
		fields.Peers = append(fields.Peers, v1alpha1.Peer{Name: p.Name, PublicKey: p.PublicKey, Endpoint: p.Endpoint, NotAfter: p.NotAfter})
	}
	return fields
}

func plain(prefixes v1alpha1.RemotePrefixes) (all v1alpha1.RemotePrefixes) {
	for _, p := range prefixes {
		all = append(all, v1alpha1.RemotePrefix{CIDR: p.CIDR})
	}
	return all
}

// remotePrefixes returns CIDRs without seenAs: the controller decides what they are mapped
// to.
func remotePrefixes(cidrs []v1alpha1.CIDR) (all v1alpha1.RemotePrefixes) {
	for _, cidr := range cidrs {
		all = append(all, v1alpha1.RemotePrefix{CIDR: cidr})
	}
	return all
}

// checkPrivate returns an error that names the CIDRs of a remote cluster that are not
// private, unless yes is true.
func (c Cluster) checkPrivate(of v1alpha1.ClusterID, cidrs []v1alpha1.CIDR, yes bool) error {
	public := slices.DeleteFunc(slices.Clone(cidrs), isPrivate)
	if yes || len(public) == 0 {
		return nil
	}
	return fmt.Errorf("%s: cluster %s has CIDRs that are not private: %s; if these are the addresses of its pods, nodes and other hosts, add --yes", c.Name, of, join(public))
}

// isPrivate reports whether a CIDR is in a private range: of RFC 1918, RFC 6598 or RFC 4193.
func isPrivate(text v1alpha1.CIDR) bool {
	p, err := netip.ParsePrefix(string(text))
	return err == nil && slices.ContainsFunc(append(slices.Clone(private), "fc00::/7"), func(of v1alpha1.AcceptedCIDR) bool {
		wide := netip.MustParsePrefix(string(of))
		return wide.Bits() <= p.Bits() && wide.Contains(p.Addr())
	})
}

// private are the private ranges that pod CIDRs usually belong to.
var private = []v1alpha1.AcceptedCIDR{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", privateIPv6}

const privateIPv6 = "fd00::/8" // RFC 4193

// accepted returns the CIDRs within which a remote cluster with these CIDRs may announce
// others: the private ranges, its own CIDRs of public IPv4 addresses, and the /16 around each
// of its own CIDRs of public IPv6 addresses. What it announces is mapped to the remap pools.
func accepted(ranges ...v1alpha1.CIDR) []v1alpha1.AcceptedCIDR {
	all := slices.Clone(private)
	for _, text := range ranges {
		p, err := netip.ParsePrefix(string(text))
		if err != nil || isPrivate(text) && (p.Addr().Is4() || netip.MustParsePrefix(privateIPv6).Contains(p.Addr())) {
			continue
		}
		if p.Addr().Is6() {
			p = netip.PrefixFrom(p.Addr(), min(16, p.Bits()))
		}
		wide := v1alpha1.AcceptedCIDR(p.Masked().String())
		if !slices.Contains(all, wide) {
			all = append(all, wide)
		}
	}
	return all
}

// asPeers returns the gateways of the remote cluster as peers for the spec, in place of the
// current peers. Other fields of a peer that stays are kept.
func asPeers(gateways []v1alpha1.GatewayStatus, now []v1alpha1.Peer) (peers []v1alpha1.Peer) {
	for _, g := range gateways {
		peer := v1alpha1.Peer{}
		if i := slices.IndexFunc(now, func(p v1alpha1.Peer) bool { return p.Name == g.Name }); i >= 0 {
			peer = now[i]
		}
		peer.Name, peer.PublicKey, peer.Endpoint, peer.NotAfter = g.Name, g.PublicKey, "", nil
		if len(g.Endpoints) > 0 {
			peer.Endpoint = g.Endpoints[0]
		}
		peers = append(peers, peer)
	}
	return peers
}
