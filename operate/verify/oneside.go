package verify

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"strait.dev/strait/internal/endpoint"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/operate/operator"
)

// OneSide tests what can be tested with access to one cluster: the checks of Short, and,
// with agents in the cluster, whether nodes reach the gateways over the overlay, and
// whether pods and nodes reach targets in other clusters, given as mapped addresses. A
// target with a port is an agent; without a port it is only pinged. Agents are removed at
// the end, as with Run.
func OneSide(ctx context.Context, c operator.Cluster, names []string, targets []netip.AddrPort, o Options) (r *Report, err error) {
	began := time.Now()
	if r, err = Short(ctx, c, names); err != nil {
		return nil, err
	}
	defer func() { r.finish(began) }()
	network, peerings, err := c.NetworkAndPeerings(ctx)
	if err != nil {
		return nil, err
	}
	r.Clusters = nil
	for i := range peerings {
		p := &peerings[i]
		if len(names) > 0 && !slices.Contains(names, p.Name) || len(p.Status.Gateways) == 0 {
			continue
		}
		g, err := readCluster(ctx, &operator.Side{Cluster: c, Network: network, Peering: p})
		if err != nil {
			return nil, err
		}
		r.Clusters = append(r.Clusters, g.shape())
		if err := g.tryOneSide(ctx, r, targets, &o); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// tryOneSide runs the checks of one peering that need one cluster only.
func (g *clusterState) tryOneSide(ctx context.Context, r *Report, targets []netip.AddrPort, o *Options) (err error) {
	s, err := open(ctx, g, o, o.Image, "")
	if err != nil {
		return err
	}
	if o.Keep {
		r.Kept = append(r.Kept, s.kept()...)
	} else {
		defer func() {
			o.say("removing the agents")
			err = errors.Join(err, s.close(context.WithoutCancel(ctx)))
		}()
	}
	mtu := int(g.Peering.Status.MTU)
	p := planOneSide(g.id, string(g.Peering.Status.ClusterID), s.locations, g.internal(), targets, mtu)
	var marker endpoint.Marker
	_, _ = rand.Read(marker[:]) // never fails
	o.say(fmt.Sprintf("running the checks that need one cluster only, for Peering %s", g.Peering.Name))
	checks, err := s.carryOut(ctx, p, marker, mtu)
	if err != nil {
		return err
	}
	r.MTU = mtu
	r.Checks = append(append(r.Checks, checks...), p.skipped...)
	return ctx.Err()
}

// internal returns the internal addresses of the peering's gateways.
func (g *clusterState) internal() map[string][]netip.Addr {
	all := map[string][]netip.Addr{}
	for _, gateway := range g.Peering.Status.Gateways {
		all[gateway.Name] = cidrs.Addrs(gateway.InternalAddresses)
	}
	return all
}

// planOneSide returns the checks from the agents of one cluster. Only nodes probe the
// addresses of gateways.
func planOneSide(id, remote string, locations []location, gateways map[string][]netip.Addr, targets []netip.AddrPort, mtu int) (p plan) {
	for _, s := range locations {
		row := Check{Group: OfMatrix, From: id, Source: s.String()}
		if s.agent == "" {
			row.What, row.Outcome, row.Detail = wholeRow, Skipped, s.why
			row.Family, row.To, row.Destination = string(ip4), remote, "all targets"
			if len(targets) > 0 {
				p.skipped = append(p.skipped, row)
			}
			continue
		}
		if s.host {
			for _, name := range slices.Sorted(maps.Keys(gateways)) {
				for _, a := range gateways[name] {
					row.To, row.Family, row.Destination = id, string(familyOf(a)), "gateway "+name
					p.sequences = append(p.sequences, sequence(row, s.agent, netip.Addr{}, netip.AddrPortFrom(a, 0), checksWithout(endpoint.ICMP, familyOf(a), 0)))
				}
			}
		}
		for _, to := range targets {
			row.To, row.Family, row.Destination = remote, string(familyOf(to.Addr())), to.String()
			protocols := []endpoint.Protocol{endpoint.ICMP}
			if to.Port() == 0 {
				row.Destination = to.Addr().String()
			} else {
				protocols = append(protocols, endpoint.TCP, endpoint.UDP)
			}
			for _, protocol := range protocols {
				p.sequences = append(p.sequences, sequence(row, s.agent, netip.Addr{}, to, checksWithout(protocol, familyOf(to.Addr()), mtu)))
			}
		}
	}
	return p
}

// checksWithout returns the checks of a protocol to a destination whose view of the source
// address is not known.
func checksWithout(protocol endpoint.Protocol, f family, mtu int) []endpoint.Check {
	return slices.DeleteFunc(checksOf(protocol, f, mtu), func(c endpoint.Check) bool { return c.ID == string(protocol)+" from" })
}
