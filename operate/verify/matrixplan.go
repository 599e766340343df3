package verify

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"strait.dev/strait/internal/endpoint"
)

// location is a source or destination of checks in a cluster.
type location struct {
	agent string // empty: none, see why
	host  bool   // in the network namespace of its node
	other bool   // on another node than the gateway
	why   string // why there is no agent
	// seen are the mapped addresses in the other cluster, by IP family; for a missing one,
	// unseen has the reason.
	seen   map[family]netip.Addr
	unseen map[family]string
}

func (s location) String() string {
	kind, place := "pod", "gateway"
	if s.host {
		kind = "host"
	}
	if s.other {
		place = "other"
	}
	return kind + " @" + place
}

type family string

const (
	ip4 family = "IPv4"
	ip6 family = "IPv6"
)

var families = []family{ip4, ip6}

func familyOf(a netip.Addr) family {
	if a.Is4() {
		return ip4
	}
	return ip6
}

// shape is the input of a plan about one cluster.
type shape struct {
	id        string
	locations []location
	// services are the Services that represent locations of the other cluster, by the agent
	// of the location.
	services map[string]map[family]service
	// withoutNodes: without node helpers, pods reach and are reached through Services only.
	withoutNodes bool
}

// service is the address of a Service, or the reason why there is none.
type service struct {
	address netip.Addr
	why     string
}

// planned is a check to be made by an agent.
type planned struct {
	Check
	agent string
	probe endpoint.Check
}

// plan contains the checks from one cluster to the other: the sequences for the agents, and
// the skipped checks with the reason.
type plan struct {
	sequences [][]planned
	skipped   []Check
}

const (
	small    = 64       // bytes of payload
	bulkSize = 64 << 10 // bytes of payload: many segments, so that the window opens
	excess   = 200      // bytes in excess of the MTU to force fragmentation
	// firstTimeout is the timeout of a first packet: new configuration takes time to
	// propagate.
	firstTimeout = 8 * time.Second
	laterTimeout = 3 * time.Second // timeout of further packets
)

// wholeRow is the name of a check that represents all checks of its row or IP family.
const wholeRow = "everything"

var matrixColumns = []string{
	"tcp 64", "tcp mtu", "tcp 64k", "tcp from",
	"udp 64", "udp mtu", "udp frag", "udp big", "udp from",
	"icmp 64", "icmp mtu", "icmp frag", "icmp big",
}

// planOf returns the checks from one cluster to the other, over a peering with this MTU; 0:
// not known.
func planOf(from, to shape, mtu int) plan {
	var p plan
	for _, f := range families {
		if why := familyMissing(f, from, to); why != "" {
			p.skipped = append(p.skipped, Check{Group: OfMatrix, From: from.id, To: to.id, Family: string(f), What: wholeRow, Outcome: Skipped, Detail: why})
			continue
		}
		for _, source := range from.locations {
			for _, destination := range to.locations {
				if destination.host {
					continue
				}
				for _, viaService := range []bool{false, true} {
					p.pair(from, to, f, source, destination, viaService, mtu)
				}
			}
		}
	}
	return p
}

// familyMissing returns the reason why an IP family is not tested at all.
func familyMissing(f family, clusters ...shape) string {
	for _, c := range clusters {
		found, why := false, ""
		for _, s := range c.locations {
			if s.host || s.agent == "" {
				continue
			}
			if s.seen[f].IsValid() {
				found = true
			} else {
				why = s.unseen[f]
			}
		}
		if !found && why != "" {
			return why
		}
		if !found {
			return fmt.Sprintf("pods of %s have no %s address", c.id, f)
		}
	}
	return ""
}

// pair plans the checks of one row.
func (p *plan) pair(from, to shape, f family, source, destination location, viaService bool, mtu int) {
	row := Check{Group: OfMatrix, From: from.id, To: to.id, Family: string(f), Source: source.String(), Destination: destination.String()}
	at, why := destination.seen[f], ""
	through := throughGateways(from, to)
	switch {
	case through != "" && (source.host || !viaService):
		why = fmt.Sprintf("cluster %s has no node helpers: its pods reach and are reached through Services only", through)
	case source.agent == "":
		why = source.why
	case destination.agent == "":
		why = destination.why
	case !source.seen[f].IsValid():
		why = source.unseen[f]
	case !at.IsValid():
		why = destination.unseen[f]
	}
	protocols := []endpoint.Protocol{endpoint.TCP, endpoint.UDP, endpoint.ICMP}
	if viaService {
		row.Destination = "Service" + row.Destination[len("pod"):]
		protocols = protocols[:2] // a Service does not answer pings
		if s := from.services[destination.agent][f]; why == "" {
			if at, why = s.address, s.why; why == "" && !at.IsValid() {
				why = fmt.Sprintf("no Service for %s exists", f)
			}
		}
	}
	if why != "" {
		row.What, row.Outcome, row.Detail = wholeRow, Skipped, why
		p.skipped = append(p.skipped, row)
		return
	}
	for _, protocol := range protocols {
		checks := checksOf(protocol, f, mtu)
		if through != "" {
			checks = slices.DeleteFunc(checks, func(c endpoint.Check) bool { return !slices.Contains(carried, c.ID) })
		}
		p.sequences = append(p.sequences, sequence(row, source.agent, source.seen[f], netip.AddrPortFrom(at, endpoint.Port), checks))
		if mtu == 0 && through == "" {
			row.What, row.Outcome, row.Detail = string(protocol)+" mtu", Skipped, "the MTU of the peering is not known yet; see strait status"
			p.skipped = append(p.skipped, row)
		}
	}
}

// sequence returns the checks of a row, from an agent that the destination sees as a source.
func sequence(row Check, agent string, source netip.Addr, to netip.AddrPort, checks []endpoint.Check) (all []planned) {
	for i, c := range checks {
		one := planned{row, agent, c}
		one.What, one.probe.To, one.probe.Patience = c.ID, to, laterTimeout
		if c.ID == string(c.Protocol)+" from" {
			one.probe.Source = source
		}
		if i == 0 {
			one.probe.Patience = firstTimeout
		}
		all = append(all, one)
	}
	return all
}

// carried are the columns of connections that gateways carry: these have no size of packets
// and no source in common with those between the clusters.
var carried = []string{"tcp 64", "tcp 64k", "udp 64"}

// throughGateways returns a cluster without node helpers; empty: both have them.
func throughGateways(clusters ...shape) string {
	for _, c := range clusters {
		if c.withoutNodes {
			return c.id
		}
	}
	return ""
}

// checksOf returns the checks of a protocol, named like the columns.
func checksOf(protocol endpoint.Protocol, f family, mtu int) []endpoint.Check {
	headers, tcp := 20+8, 20+20+12 // with TCP timestamps
	if f == ip6 {
		headers, tcp = headers+20, tcp+20
	}
	name := func(size string) string { return string(protocol) + " " + size }
	if protocol == endpoint.TCP {
		all := []endpoint.Check{{ID: name("64"), Protocol: protocol, Size: small}}
		if mtu != 0 {
			all = append(all, endpoint.Check{ID: name("mtu"), Protocol: protocol, Size: mtu - tcp})
		}
		return append(all, endpoint.Check{ID: name("64k"), Protocol: protocol, Size: bulkSize}, endpoint.Check{ID: name("from"), Protocol: protocol, Size: small})
	}
	all := []endpoint.Check{{ID: name("64"), Protocol: protocol, Size: small + headers, Mode: endpoint.Whole}}
	if mtu != 0 {
		all = append(all,
			endpoint.Check{ID: name("mtu"), Protocol: protocol, Size: mtu, Mode: endpoint.Whole},
			endpoint.Check{ID: name("frag"), Protocol: protocol, Size: mtu + excess, Mode: endpoint.Fragment},
			endpoint.Check{ID: name("big"), Protocol: protocol, Size: mtu + 1, Mode: endpoint.TooBig})
	}
	if protocol == endpoint.UDP {
		all = append(all, endpoint.Check{ID: name("from"), Protocol: protocol, Size: small + headers, Mode: endpoint.Whole})
	}
	return all
}
