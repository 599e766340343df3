//go:build linux

package node

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/gaissmai/bart"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// destination is a prefix that another program routes on the node: by a route, or by a rule
// for destinations, that the kernel looks up after Strait's.
type destination struct {
	prefix netip.Prefix
	what   string     // route or rule N
	via    netip.Addr // the zero Addr: none
	link   int        // index; 0: none
	table  int
}

// eachDestination visits all destinations, except default routes. Routes in tables before
// Strait's, like the local one, are not affected by Strait's routes. Observe must have been
// called before.
func (k *Kernel) eachDestination(visit func(destination)) error {
	ours := map[int]bool{}
	for _, index := range k.links {
		ours[index] = true
	}
	for _, f := range families {
		tables, err := k.eachRuleAfter(f, visit)
		if err != nil {
			return err
		}
		err = k.routes.RouteListFilteredIter(f.number(), &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE, func(r netlink.Route) bool {
			to, ok := specific(r.Dst)
			if ok && tables[r.Table] && decides(r.Type) && !ours[r.LinkIndex] {
				visit(destination{prefix: to, what: "route", via: addressOf(r.Gw), link: r.LinkIndex, table: r.Table})
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// eachRuleAfter visits the destinations of rules that follow Strait's, and returns the
// tables that these look up.
func (k *Kernel) eachRuleAfter(f family, visit func(destination)) (tables map[int]bool, err error) {
	rules, err := k.routes.RuleList(f.number())
	if err != nil {
		return nil, err
	}
	tables = map[int]bool{}
	for _, r := range rules {
		if r.Priority < RulePriority || r.Protocol == routeProtocol {
			continue
		}
		tables[r.Table] = true
		if to, ok := specific(r.Dst); ok && !r.Invert {
			visit(destination{prefix: to, what: fmt.Sprintf("rule %d", r.Priority), table: r.Table})
		}
	}
	for _, table := range []int{unix.RT_TABLE_UNSPEC, unix.RT_TABLE_LOCAL, routeTable} {
		delete(tables, table) // no lookup; addresses of the node, which come first; Strait's routes
	}
	return tables, nil
}

// specific returns a destination unless it is a default route: of all addresses, of one
// half of them as VPN clients set it, or of the IPv6 Internet.
func specific(to *net.IPNet) (p netip.Prefix, ok bool) {
	if to == nil {
		return p, false
	}
	bits, _ := to.Mask.Size()
	p = netip.PrefixFrom(addressOf(to.IP), bits)
	return p, p.IsValid() && bits > 1 && p != internet6
}

var internet6 = netip.MustParsePrefix("2000::/3")

// decides reports whether a route of this type decides what happens to packets to another
// host. After a throw route, the lookup continues.
func decides(kind int) bool {
	return kind == unix.RTN_UNICAST || kind == unix.RTN_BLACKHOLE || kind == unix.RTN_UNREACHABLE || kind == unix.RTN_PROHIBIT
}

// overlaps is a set of prefixes, each with the lowest destination that overlaps it: the
// lowest, so that messages do not change.
type overlaps struct {
	prefixes bart.Lite // disjoint
	lowest   map[netip.Prefix]destination
}

func (o *overlaps) add(d destination) {
	if p, ok := o.prefixes.LookupPrefixLPM(d.prefix); ok {
		o.keep(p, d)
		return
	}
	for p := range o.prefixes.Subnets(d.prefix) {
		o.keep(p, d)
	}
}

func (o *overlaps) keep(p netip.Prefix, d destination) {
	if lowest, known := o.lowest[p]; !known || d.prefix.Compare(lowest.prefix) < 0 {
		o.lowest[p] = d
	}
}

// readDestinations reads the destinations that the routes of d overlap. Observe must have
// been called before.
func (k *Kernel) readDestinations(d Desired, s *State) error {
	found := overlaps{lowest: map[netip.Prefix]destination{}}
	for _, r := range d.Routes {
		found.prefixes.Insert(r.Prefix)
	}
	if err := k.eachDestination(found.add); err != nil {
		return err
	}
	s.Destinations = map[netip.Prefix]string{}
	for p, one := range found.lowest {
		s.Destinations[p] = k.destinationText(one)
	}
	return nil
}

func (k *Kernel) destinationText(d destination) string {
	text := fmt.Sprintf("%s to %s", d.what, d.prefix)
	if d.via.IsValid() {
		text += fmt.Sprintf(" via %s", d.via)
	}
	if d.link > 0 {
		if name, err := k.deviceName(d.link); err == nil { // otherwise it was deleted meanwhile
			text += " dev " + name
		}
	}
	return text + fmt.Sprintf(" table %d", d.table)
}
