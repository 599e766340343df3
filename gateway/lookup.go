package gateway

import (
	"net/netip"

	"strait.dev/strait/nat"
)

// outward is what a table says about the addresses of a packet from a node.
type outward struct {
	from    *route   // the source's; nil: it is not of this cluster
	granted bool     // whether a grant contains the source
	to      *nat.Map // the destination's; nil: it is not in the remote cluster
}

func (t *Table) outward(src, dst netip.Addr) (o outward) {
	o.from, _ = t.local.Lookup(src)
	o.granted = t.grants(src)
	o.to, _ = t.seen.Lookup(dst)
	return o
}

// inward is what a table says about the addresses of a packet from the tunnel.
type inward struct {
	from    *nat.Map // the source's; nil: it is not in the remote cluster
	to      *route   // the destination's; nil: it is not of this cluster
	granted bool     // whether a grant contains the destination
}

func (t *Table) inward(src, dst netip.Addr) (i inward) {
	i.from, _ = t.remote.Lookup(src)
	i.to, _ = t.local.Lookup(dst)
	i.granted = t.grants(dst)
	return i
}

// grants reports whether the remote cluster may reach an address here, and be reached from it.
func (t *Table) grants(a netip.Addr) bool {
	_, ok := t.granted.Lookup(a)
	return ok
}

// lookup keeps the last result: consecutive packets often have the same addresses.
type lookup[T outward | inward] struct {
	table    *Table
	src, dst netip.Addr
	found    T
}

// of returns what find, a method of Table, finds for two addresses.
func (l *lookup[T]) of(t *Table, src, dst netip.Addr, find func(*Table, netip.Addr, netip.Addr) T) *T {
	if l.table != t || l.src != src || l.dst != dst {
		l.table, l.src, l.dst, l.found = t, src, dst, find(t, src, dst)
	}
	return &l.found
}
