package ipam

import (
	"net/netip"
	"slices"
)

// set is a set of prefixes, which may overlap, of both families. It finds the
// free blocks between them in as many steps as an address has bits, however many
// prefixes there are and however wide. The zero value is empty.
//
// A routing table finds what is there; this one has to find what is not, so
// every node carries the size of the widest hole below it.
type set struct{ v4, v6 *node }

// node is a prefix of a binary trie in which every node is either a member or the
// place where two members part. A nil node is an empty trie.
type node struct {
	prefix netip.Prefix
	member bool // nothing in prefix is free
	child  [2]*node
	widest int // length of the widest free block in prefix; full if there is none
}

// full is longer than any prefix.
const full = 129

func (s *set) root(p netip.Prefix) **node {
	if p.Addr().Is4() {
		return &s.v4
	}
	return &s.v6
}

// add makes p a member. Adding a member again changes nothing.
func (s *set) add(p netip.Prefix) {
	root := s.root(p)
	*root = (*root).add(p)
}

// remove makes p no member. Members that overlap it stay.
func (s *set) remove(p netip.Prefix) {
	root := s.root(p)
	*root = (*root).remove(p)
}

// overlapping is a member that overlaps p: the widest of those that hold p, or
// else the lowest inside it.
func (s *set) overlapping(p netip.Prefix) (netip.Prefix, bool) {
	n := *s.root(p)
	for n != nil && n.prefix.Overlaps(p) {
		switch {
		case n.member:
			return n.prefix, true
		case holds(n.prefix, p):
			n = n.child[bit(p.Addr(), n.prefix.Bits())]
		default:
			n = n.child[0]
		}
	}
	return netip.Prefix{}, false
}

// lowest is the first free block of this length in pool that is none of except.
func (s *set) lowest(pool netip.Prefix, length int, except []netip.Prefix) (netip.Prefix, bool) {
	n := *s.root(pool)
	for n != nil && !n.member && holds(n.prefix, pool) {
		n = n.child[bit(pool.Addr(), n.prefix.Bits())]
	}
	if n != nil && !n.prefix.Overlaps(pool) {
		n = nil
	}
	return n.lowest(pool, length, except)
}

func (n *node) add(p netip.Prefix) *node {
	switch {
	case n == nil:
		return &node{prefix: p, member: true, widest: full}
	case n.prefix == p:
		n.member = true
	case holds(n.prefix, p):
		side := bit(p.Addr(), n.prefix.Bits())
		n.child[side] = n.child[side].add(p)
	default:
		parent := &node{prefix: common(n.prefix, p)}
		parent.child[bit(n.prefix.Addr(), parent.prefix.Bits())] = n
		return parent.add(p)
	}
	n.measure()
	return n
}

func (n *node) remove(p netip.Prefix) *node {
	switch {
	case n == nil:
		return nil
	case n.prefix == p:
		n.member = false
	case holds(n.prefix, p):
		side := bit(p.Addr(), n.prefix.Bits())
		n.child[side] = n.child[side].remove(p)
	}
	if !n.member { // and where nothing parts any more, no node is needed
		for side, c := range n.child {
			if c == nil {
				return n.child[1-side]
			}
		}
	}
	n.measure()
	return n
}

// measure sets widest, which follows from the children.
func (n *node) measure() {
	n.widest = full
	if !n.member {
		n.widest = min(n.child[0].widestIn(n.prefix.Bits()+1), n.child[1].widestIn(n.prefix.Bits()+1))
	}
}

// widestIn is the length of the widest free block in a block of this length, of
// which n is all that is in use. n may be wider, and then a member.
func (n *node) widestIn(length int) int {
	switch {
	case n == nil:
		return length
	case n.prefix.Bits() > length:
		return length + 1 // the half that n is not in
	}
	return n.widest
}

// lowest looks in a block of which n is all that is in use. A half is entered
// only when a wide enough hole is known to be in it, so no step is in vain but
// for those that lead to one of except.
func (n *node) lowest(block netip.Prefix, length int, except []netip.Prefix) (netip.Prefix, bool) {
	if n.widestIn(block.Bits()) > length {
		return netip.Prefix{}, false
	}
	if block.Bits() == length {
		return block, !slices.Contains(except, block)
	}
	for side := range 2 {
		sub := half(block, side)
		if found, ok := n.within(block, side, sub).lowest(sub, length, except); ok {
			return found, true
		}
	}
	return netip.Prefix{}, false
}

// within is what is in use of sub, one half of block.
func (n *node) within(block netip.Prefix, side int, sub netip.Prefix) *node {
	switch {
	case n == nil:
		return nil
	case n.prefix == block:
		return n.child[side]
	case sub.Overlaps(n.prefix):
		return n
	}
	return nil
}
