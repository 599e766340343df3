package verify

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"strait.dev/strait/internal/endpoint"
	"strait.dev/strait/internal/endpoint/leak"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/cidrs"
)

// watchOrder returns what an agent on a node of this cluster captures.
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
		o.Own = append(o.Own, singles(cidrs.Addrs(a.Spec.UnderlayAddresses))...)
		if a.Name == node {
			o.Node = cidrs.Addrs(a.Spec.UnderlayAddresses)
		}
		for _, gateway := range a.Status.Gateways {
			o.Own = append(o.Own, singles(cidrs.Addrs([]v1alpha1.IP{gateway.Source}))...)
		}
	}
	for _, gateway := range g.Peering.Status.Gateways {
		o.Own = append(o.Own, singles(cidrs.Addrs(gateway.PodAddresses))...)
	}
	var foreign []netip.Addr
	for _, r := range g.reports {
		for _, l := range r.Status.Links {
			if at, err := netip.ParseAddrPort(string(l.Endpoint)); err == nil {
				foreign = append(foreign, at.Addr().Unmap())
			}
		}
	}
	for _, a := range other.attachments {
		foreign = append(foreign, cidrs.Addrs(a.Spec.UnderlayAddresses)...)
	}
	for _, p := range singles(foreign) { // separate networks of clusters may use the same addresses
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

// judgeWatch evaluates the captures of the nodes of a cluster.
func judgeWatch(id string, reports []leak.Report, failed error) Check {
	c := Check{Group: OfEncryption, From: id, What: "no unencrypted packets on the underlay", Outcome: Passed}
	var all leak.Report
	for _, r := range reports {
		all.Clear, all.Tunnel, all.Missed = all.Clear+r.Clear, all.Tunnel+r.Tunnel, all.Missed+r.Missed
		all.Leaks, all.Underlay = append(all.Leaks, r.Leaks...), append(all.Underlay, r.Underlay...)
	}
	c.Detail = fmt.Sprintf("%d packets with the marker inside of the cluster, %d to and from the other cluster without it", all.Clear, all.Tunnel)
	switch {
	case len(all.Leaks) > 0:
		var texts []string
		for _, l := range all.Leaks[:min(len(all.Leaks), 5)] {
			texts = append(texts, fmt.Sprintf("%d from %v to %v (IP protocol %d) on %s", l.Packets, l.Source, l.Destination, l.Protocol, l.Interface))
		}
		c.Outcome, c.Detail = Failed, "unencrypted packets: "+strings.Join(texts, "; ")
		c.Cause = "packets for the other cluster do not leave the node through its gateway: a route of the CNI or of the host takes precedence over Strait's routes"
		c.Remedy = "run ip route get ADDRESS on that node and strait status to find the route of the packets; remove the other route"
	case len(reports) == 0 && failed != nil:
		c.Outcome, c.Detail = Skipped, failed.Error()
	case len(reports) == 0:
		c.Outcome, c.Detail = Skipped, fmt.Sprintf("cluster %s does not run pods in the host network", id)
	case len(all.Underlay) == 0:
		c.Outcome, c.Detail = Skipped, "no interface of the nodes has the node's address, so the underlay interfaces are not known"
	case all.Clear == 0:
		c.Outcome, c.Detail = Skipped, "no packet with the marker was captured on the nodes' interfaces"
	case all.Tunnel == 0:
		c.Outcome, c.Detail = Skipped, "no packet to or from the other cluster's gateways was captured on these nodes"
	case all.Missed > 0:
		c.Detail += fmt.Sprintf("; %d packets were not captured because of their rate", all.Missed)
	}
	return c
}

// watch is an agent that captures packets on its node.
type watch struct {
	*session
	cluster int
}

type watches struct {
	all []watch
	why [2][]error // by cluster: errors of agents that could not capture
}

// startWatches starts captures on all nodes with agents, and waits until they run.
func startWatches(ctx context.Context, sites [2]*site, marker endpoint.Marker) *watches {
	w := &watches{}
	for i, s := range sites {
		for _, p := range s.locations {
			if !p.host || p.agent == "" {
				continue
			}
			node, _ := s.node(p.other)
			w.all = append(w.all, watch{s.begin(ctx, p.agent, "watch", watchOrder(s.clusterState, sites[1-i].clusterState, node, marker), maxRunTime), i})
		}
	}
	var looking []watch
	for _, one := range w.all {
		var ready string
		if err := one.next(&ready); err != nil {
			one.cancel()
			w.why[one.cluster] = append(w.why[one.cluster], fmt.Errorf("cannot capture packets: %w", err))
			continue
		}
		looking = append(looking, one)
	}
	w.all = looking
	return w
}

// stop ends the watches that still run.
func (w *watches) stop() {
	for _, one := range w.all {
		one.cancel()
	}
}

// judge ends the watches, and evaluates their captures.
func (w *watches) judge(sites [2]*site) (checks []Check) {
	var reports [2][]leak.Report
	for _, one := range w.all {
		var is leak.Report
		if err := one.end(&is); err != nil {
			w.why[one.cluster] = append(w.why[one.cluster], err)
			continue
		}
		reports[one.cluster] = append(reports[one.cluster], is)
	}
	for i, s := range sites {
		checks = append(checks, judgeWatch(s.id, reports[i], errors.Join(w.why[i]...)))
	}
	return checks
}
