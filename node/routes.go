//go:build linux

package node

import (
	"errors"
	"fmt"

	mdlayher "github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func (k *Kernel) setRoute(r KernelRoute) error {
	if r.Group != 0 {
		request, err := groupRoute(r)
		if err != nil {
			return err
		}
		_, err = k.raw.Execute(request)
		return err
	}
	entry := r.entry()
	if r.blackhole() {
		return k.routes.RouteReplace(entry)
	}
	entry.MTU, entry.Src = r.MTU, r.Source.AsSlice()
	var hops []*netlink.NexthopInfo
	for _, h := range r.Hops {
		index, known := k.links[h.Link]
		if !known {
			return fmt.Errorf("link %s: %w", h.Link, unix.ENODEV)
		}
		hop := &netlink.NexthopInfo{LinkIndex: index}
		if h.Via.IsValid() {
			hop.Gw, hop.Flags = h.Via.AsSlice(), int(netlink.FLAG_ONLINK)
		} else if r.Prefix.Addr().Is4() {
			entry.Scope = unix.RT_SCOPE_LINK
		}
		hops = append(hops, hop)
	}
	if len(hops) == 1 {
		entry.LinkIndex, entry.Gw, entry.Flags = hops[0].LinkIndex, hops[0].Gw, hops[0].Flags
	} else {
		entry.MultiPath = hops
	}
	return k.routes.RouteReplace(entry)
}

// entry returns the fields that identify the route.
func (r KernelRoute) entry() *netlink.Route {
	entry := &netlink.Route{
		Dst: network(r.Prefix), Table: routeTable, Protocol: routeProtocol, Priority: r.Metric, Type: unix.RTN_UNICAST,
	}
	if r.blackhole() {
		entry.Type = unix.RTN_BLACKHOLE
	}
	return entry
}

func (k *Kernel) deleteRoute(r KernelRoute) error {
	entry := r.entry()
	entry.Scope = unix.RT_SCOPE_NOWHERE // any
	return gone(k.routes.RouteDel(entry))
}

func (k *Kernel) readRoutes(s *State) error {
	names := k.linkNames()
	for _, f := range families {
		messages, err := k.raw.Execute(ownRoutes(f))
		if errors.Is(err, unix.ENOENT) {
			continue // there is no such table
		}
		if err != nil {
			return err
		}
		for _, m := range messages {
			if m.Header.Flags&mdlayher.DumpInterrupted != 0 {
				return netlink.ErrDumpInterrupted
			}
			if r, ok := parseRoute(m.Data); ok && r.table == routeTable && r.protocol == routeProtocol {
				s.Routes = append(s.Routes, r.route(names))
			}
		}
	}
	return nil
}

// route converts a route of Strait. names are its links by index.
func (r routeMessage) route(names map[int]string) KernelRoute {
	route := KernelRoute{Prefix: r.prefix, Metric: r.metric}
	if r.kind == unix.RTN_BLACKHOLE {
		return route
	}
	route.Source, route.MTU = r.source, r.mtu
	switch {
	case r.nexthop != 0:
		route.Group = r.nexthop
	case r.hops != nil:
		for _, h := range r.hops {
			route.Hops = append(route.Hops, hopOf(h.link, h.via, names))
		}
		sortHops(route.Hops)
	default:
		route.Hops = []Hop{hopOf(r.link, r.via, names)}
	}
	return route
}

func (k *Kernel) addRule(f family) error    { return k.routes.RuleAdd(f.rule()) }
func (k *Kernel) deleteRule(f family) error { return gone(k.routes.RuleDel(f.rule())) }

func (f family) rule() *netlink.Rule {
	rule := netlink.NewRule()
	rule.Family, rule.Table, rule.Priority, rule.Protocol = f.number(), routeTable, RulePriority, routeProtocol
	return rule
}

// number is the kernel's constant for the family.
func (f family) number() int {
	if f == ipv4 {
		return unix.AF_INET
	}
	return unix.AF_INET6
}
