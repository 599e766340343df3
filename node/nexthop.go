//go:build linux

package node

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
)

// Nexthop is a nexthop object of the kernel: the way to one gateway in one address family.
type Nexthop struct {
	ID uint32
	Hop
}

// NexthopGroup is a nexthop object by which the kernel spreads flows over nexthops. Any number
// of routes refer to it, so one message takes a gateway out of all of them.
type NexthopGroup struct {
	ID      uint32
	Members []uint32 // ascending; at least one
}

func (g NexthopGroup) equal(o NexthopGroup) bool {
	return g.ID == o.ID && slices.Equal(g.Members, o.Members)
}

func (n Nexthop) String() string { return fmt.Sprintf("%d %s", n.ID, n.Hop) }

func (g NexthopGroup) String() string { return fmt.Sprintf("%d group %v", g.ID, g.Members) }

// IDs of nexthops are shared by all programs of a network namespace. Strait's are 0x50000000 to
// 0x53ffffff. The kernel and systemd-networkd count from 1. FRR uses numbers below 0x10000000
// and marks those of EVPN by 1 and 2 in the upper four bits. The lower 24 bits are the gateway's
// VNI, which is unique on the node, or a hash of the group's name.
const (
	nexthopIDs  = 0x50000000
	idKinds     = 4 // nexthop and group, each by family
	idBits      = 24
	kindNexthop = 0
	kindGroup   = 2
)

func ownID(id uint32) bool { return id-nexthopIDs < idKinds<<idBits }

// takenIDs are IDs that are in use.
type takenIDs map[uint32]bool

// take returns the ID of a number, or the next one that is not in use.
func (t takenIDs) take(kind uint32, f family, number uint32) uint32 {
	for {
		id := nexthopIDs | (kind+uint32(f))<<idBits | number&(1<<idBits-1)
		if !t[id] {
			t[id] = true
			return id
		}
		number++
	}
}

// nexthops returns the nexthops to all gateways and the groups of d, for the families that are
// routed. foreign are the IDs of Strait's range that other programs use. A group without a
// gateway of a family has no nexthop group of that family.
func (d Desired) nexthops(foreign []uint32) (hops []Nexthop, groups []NexthopGroup, byName map[groupKey]uint32) {
	taken := takenIDs{}
	for _, id := range foreign {
		taken[id] = true
	}
	var routed [2]bool
	for _, r := range d.Routes {
		routed[familyOf(r.Prefix.Addr())] = true
	}
	ids := map[groupKey]uint32{} // by name of the gateway
	for _, g := range d.Gateways {
		l := d.link(g)
		for _, n := range l.Neighbours {
			f := familyOf(n.Address)
			if !routed[f] {
				continue
			}
			id := taken.take(kindNexthop, f, g.VNI)
			ids[groupKey{g.Name, f}] = id
			hops = append(hops, Nexthop{id, Hop{l.Name, n.Address}})
		}
	}
	byName = map[groupKey]uint32{}
	for _, g := range d.Groups {
		for _, f := range families {
			var members []uint32
			for _, name := range g.Gateways {
				if id, has := ids[groupKey{name, f}]; has {
					members = append(members, id)
				}
			}
			if len(members) == 0 {
				continue
			}
			slices.Sort(members)
			id := taken.take(kindGroup, f, hashOf(g.Name))
			byName[groupKey{g.Name, f}] = id
			groups = append(groups, NexthopGroup{id, members})
		}
	}
	return hops, groups, byName
}

// groupKey is the name of a group or gateway, and one of its address families.
type groupKey struct {
	name string
	family
}

func hashOf(name string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name)) // does not fail
	return h.Sum32() ^ h.Sum32()>>idBits
}

// Hop is a next hop: a link, and the gateway's internal address on it.
type Hop struct {
	Link string
	Via  netip.Addr // the zero Addr: on link
}

func (h Hop) String() string {
	if h.Via.IsValid() {
		return fmt.Sprintf("via %s dev %s", h.Via, h.Link)
	}
	return "dev " + h.Link
}
