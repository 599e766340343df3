package node

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/gaissmai/bart"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// destinations collects what other programs route on the node and certain prefixes overlap.
type destinations struct {
	prefixes bart.Lite
	lowest   map[netip.Prefix]destination // by overlapping prefix; the lowest, so that messages do not change
}

type destination struct {
	prefix netip.Prefix
	what   string // route or rule N
	via    netip.Addr
	link   int // index; 0: none
	table  int
}

// add adds a destination, unless it is a default route: of all addresses, of one half of
// them as VPN clients set it, or of the IPv6 Internet.
func (s *destinations) add(to *net.IPNet, d destination) {
	if to == nil {
		return
	}
	bits, _ := to.Mask.Size()
	d.prefix = netip.PrefixFrom(addressOf(to.IP), bits)
	if bits <= 1 || !d.prefix.IsValid() || d.prefix == internet6 {
		return
	}
	if p, ok := s.prefixes.LookupPrefixLPM(d.prefix); ok {
		s.keep(p, d)
		return
	}
	for p := range s.prefixes.Subnets(d.prefix) {
		s.keep(p, d)
	}
}

func (s *destinations) keep(p netip.Prefix, d destination) {
	if lowest, known := s.lowest[p]; !known || d.prefix.Compare(lowest.prefix) < 0 {
		s.lowest[p] = d
	}
}

var internet6 = netip.MustParsePrefix("2000::/3")

// readDestinations reads the destinations that the routes of d overlap. Those in tables
// before Strait's, like the local one, are not affected by Strait's routes. Observe must
// have been called before.
func (k *Kernel) readDestinations(d Desired, s *State) error {
	found := destinations{lowest: map[netip.Prefix]destination{}}
	for _, r := range d.Routes {
		found.prefixes.Insert(r.Prefix)
	}
	for _, f := range families {
		tables, err := k.readRulesAfter(f, &found)
		if err != nil {
			return err
		}
		ours := map[int]bool{}
		for _, index := range k.links {
			ours[index] = true
		}
		err = k.routes.RouteListFilteredIter(f.number(), &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE, func(r netlink.Route) bool {
			if tables[r.Table] && decides(r.Type) && !ours[r.LinkIndex] {
				found.add(r.Dst, destination{what: "route", via: addressOf(r.Gw), link: r.LinkIndex, table: r.Table})
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	s.Destinations = map[netip.Prefix]string{}
	for p, one := range found.lowest {
		s.Destinations[p] = k.destinationText(one)
	}
	return nil
}

// readRulesAfter adds the destinations of rules that follow Strait's, and returns the
// tables that these look up.
func (k *Kernel) readRulesAfter(f family, found *destinations) (tables map[int]bool, err error) {
	rules, err := k.routes.RuleList(f.number())
	if err != nil {
		return nil, err
	}
	tables = map[int]bool{}
	for _, r := range rules {
		if r.Priority < rulePriority || r.Protocol == routeProtocol {
			continue
		}
		tables[r.Table] = true
		if !r.Invert {
			found.add(r.Dst, destination{what: fmt.Sprintf("rule %d", r.Priority), table: r.Table})
		}
	}
	for _, table := range []int{unix.RT_TABLE_UNSPEC, unix.RT_TABLE_LOCAL, routeTable} {
		delete(tables, table) // no lookup; addresses of the node, which come first; Strait's routes
	}
	return tables, nil
}

// decides reports whether a route of this type decides what happens to packets to another
// host. After a throw route, the lookup continues.
func decides(kind int) bool {
	return kind == unix.RTN_UNICAST || kind == unix.RTN_BLACKHOLE || kind == unix.RTN_UNREACHABLE || kind == unix.RTN_PROHIBIT
}

// destinationText formats a destination for messages.
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
