package node

import (
	"fmt"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func (k *Kernel) setRoute(r KernelRoute) error {
	entry := r.entry()
	if r.Link != "" {
		index, known := k.links[r.Link]
		if !known {
			return fmt.Errorf("link %s: %w", r.Link, unix.ENODEV)
		}
		entry.LinkIndex, entry.MTU, entry.Src = index, r.MTU, r.Source.AsSlice()
		if r.Via.IsValid() {
			entry.Gw, entry.Flags = r.Via.AsSlice(), int(netlink.FLAG_ONLINK)
		} else if r.Prefix.Addr().Is4() {
			entry.Scope = unix.RT_SCOPE_LINK
		}
	}
	return k.routes.RouteReplace(entry)
}

// entry returns the fields that identify the route.
func (r KernelRoute) entry() *netlink.Route {
	entry := &netlink.Route{
		Dst: network(r.Prefix), Table: routeTable, Protocol: routeProtocol, Priority: r.Metric, Type: unix.RTN_UNICAST,
	}
	if r.Link == "" {
		entry.Type = unix.RTN_BLACKHOLE
	}
	return entry
}

func (k *Kernel) deleteRoute(r KernelRoute) error {
	entry := r.entry()
	entry.Scope = unix.RT_SCOPE_NOWHERE // any
	return gone(k.routes.RouteDel(entry))
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
