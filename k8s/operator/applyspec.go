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

// applySpec changes the spec of a Peering to what a command wants, and writes it unless it is
// that already. Was is the Peering as it is, nil to make one.
func (c Cluster) applySpec(ctx context.Context, name string, was *v1alpha1.Peering, change func(*v1alpha1.PeeringSpec)) (*v1alpha1.Peering, error) {
	var spec v1alpha1.PeeringSpec
	if was != nil {
		if was.DeletionTimestamp != nil {
			return nil, fmt.Errorf("%s: Peering %s is being deleted; wait until it is gone", c.Name, name)
		}
		was.Spec.DeepCopyInto(&spec)
	}
	change(&spec)
	if was != nil && equality.Semantic.DeepEqual(spec, was.Spec) {
		return was, nil
	}
	fields := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: managedFields(&spec)}
	if was != nil {
		fields.UID = was.UID // so that one that was made anew meanwhile stays as it is
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

// managedFields are the fields of a spec that commands decide. All others, for instance where
// a range is seen or which Secret holds a preshared key, stay with whoever wrote them.
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

// remotePrefixes are ranges that are seen wherever the controller decides.
func remotePrefixes(cidrs []v1alpha1.CIDR) (all v1alpha1.RemotePrefixes) {
	for _, cidr := range cidrs {
		all = append(all, v1alpha1.RemotePrefix{CIDR: cidr})
	}
	return all
}

// private are the ranges that clusters have their pods in.
var private = []v1alpha1.CIDR{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"}

// accepted are the ranges within which a remote cluster with these ranges may announce
// others: the private ones and, as there is no private range of IPv6 that may be
// accepted whole, the /16 around each of its own.
func accepted(ranges ...v1alpha1.CIDR) []v1alpha1.CIDR {
	all := slices.Clone(private)
	for _, text := range ranges {
		p, err := netip.ParsePrefix(string(text))
		if err != nil || p.Addr().Is4() {
			continue
		}
		wide := v1alpha1.CIDR(netip.PrefixFrom(p.Addr(), min(16, p.Bits())).Masked().String())
		if !slices.Contains(all, wide) {
			all = append(all, wide)
		}
	}
	return all
}

// asPeers are the gateways of the other cluster as the spec here names them, in place of
// those that it names now. What else it says of one that stays is kept.
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
