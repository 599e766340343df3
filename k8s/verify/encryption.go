package verify

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"strait.dev/strait/internal/endpoint/leak"
	"strait.dev/strait/k8s/api/v1alpha1"
)

// watchOrder is what an agent on a node of this cluster looks for.
func watchOrder(g, other *clusterState, node string, marker [16]byte) leak.Order {
	o := leak.Order{Marker: marker, Foreign: []netip.Prefix{}, Own: []netip.Prefix{}, Node: []netip.Addr{}}
	status := g.Network.Status
	for _, list := range [][]v1alpha1.CIDR{status.PodCIDRs, status.ServiceCIDRs, status.NodeCIDRs, g.Network.Spec.InternalCIDRs} {
		for _, text := range list {
			if p, err := netip.ParsePrefix(string(text)); err == nil {
				o.Own = append(o.Own, p)
			}
		}
	}
	for _, a := range g.attachments {
		o.Own = append(o.Own, singles(addresses(a.Spec.UnderlayAddresses))...)
		if a.Name == node {
			o.Node = addresses(a.Spec.UnderlayAddresses)
		}
		for _, gateway := range a.Status.Gateways {
			o.Own = append(o.Own, singles(addresses([]v1alpha1.IP{gateway.Source}))...)
		}
	}
	for _, gateway := range g.Peering.Status.Gateways {
		o.Own = append(o.Own, singles(addresses(gateway.PodAddresses))...)
	}
	var foreign []netip.Addr
	for _, l := range g.Peering.Status.Links {
		if at, err := netip.ParseAddrPort(string(l.Endpoint)); err == nil {
			foreign = append(foreign, at.Addr().Unmap())
		}
	}
	for _, a := range other.attachments {
		foreign = append(foreign, addresses(a.Spec.UnderlayAddresses)...)
	}
	for _, p := range singles(foreign) { // clusters may be in networks of their own that are alike
		if !slices.Contains(o.Own, p) {
			o.Foreign = append(o.Foreign, p)
		}
	}
	return o
}

func singles(all []netip.Addr) (prefixes []netip.Prefix) {
	for _, a := range all {
		prefixes = append(prefixes, netip.PrefixFrom(a, a.BitLen()))
	}
	return prefixes
}

// judgeWatch is what the nodes of a cluster saw.
func judgeWatch(id string, reports []leak.Report, failed error) Check {
	c := Check{Group: OfEncryption, From: id, What: "nothing in the clear on the underlay", Outcome: Passed}
	var all leak.Report
	for _, r := range reports {
		all.Clear, all.Tunnel, all.Missed = all.Clear+r.Clear, all.Tunnel+r.Tunnel, all.Missed+r.Missed
		all.Leaks, all.Underlay = append(all.Leaks, r.Leaks...), append(all.Underlay, r.Underlay...)
	}
	c.Detail = fmt.Sprintf("%d packets with the marker inside the cluster, %d to and from the other cluster without it", all.Clear, all.Tunnel)
	switch {
	case len(all.Leaks) > 0:
		var texts []string
		for _, l := range all.Leaks[:min(len(all.Leaks), 5)] {
			texts = append(texts, fmt.Sprintf("%d from %v to %v (IP protocol %d) on %s", l.Packets, l.Source, l.Destination, l.Protocol, l.Interface))
		}
		c.Outcome, c.Detail = Failed, "packets in the clear: "+strings.Join(texts, "; ")
		c.Cause = "packets for the other cluster leave the node by another way than its gateway: a route of the CNI or of the host goes before those of Strait"
		c.Remedy = "on that node, ip route get ADDRESS and strait status say which way packets take; take the other route away"
	case len(reports) == 0 && failed != nil:
		c.Outcome, c.Detail = Skipped, failed.Error()
	case len(reports) == 0:
		c.Outcome, c.Detail = Skipped, fmt.Sprintf("cluster %s runs no pod in the network of a node", id)
	case len(all.Underlay) == 0:
		c.Outcome, c.Detail = Skipped, "no interface of the nodes has the address that the node is known by, so that it is not known which are the underlay"
	case all.Clear == 0:
		c.Outcome, c.Detail = Skipped, "the nodes' interfaces showed none of our packets at all, so that there was nothing to judge by"
	case all.Tunnel == 0:
		c.Outcome, c.Detail = Skipped, "no packet to or from the other cluster's gateways passed these nodes under their addresses, so that there was nothing to judge by"
	case all.Missed > 0:
		c.Detail += fmt.Sprintf("; %d were too fast to be looked at", all.Missed)
	}
	return c
}
