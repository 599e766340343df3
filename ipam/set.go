package ipam

import (
	"net/netip"
	"slices"
)

// set is a set of prefixes of both families, which may overlap. It finds the free prefixes between them in as many steps
// as an address has bits, independent of the number and width of the prefixes. The zero value is empty.
//
// A routing table finds members; this set has to find gaps, so every node stores the size of the widest gap below it.
type set struct{ v4, v6 *node }

// node is a prefix in a binary trie. Every node is a member or the branching point of two members. A nil node is an empty
// trie.
type node struct {
	prefix netip.Prefix
	member bool // nothing in prefix is free
	child  [2]*node
	widest int // length of the widest free prefix in prefix; full if there is none
}

const full = 129 // longer than any prefix

func (s *set) root(p netip.Prefix) **node {
	if p.Addr().Is4() {
		return &s.v4
	}
	return &s.v6
}

// add adds p. Adding a member again is a no-op.
func (s *set) add(p netip.Prefix) {
	root := s.root(p)
	*root = (*root).add(p)
}

// remove removes p. Members that overlap it stay.
func (s *set) remove(p netip.Prefix) {
	root := s.root(p)
	*root = (*root).remove(p)
}

// overlapping returns a member that overlaps p: the widest of those that contain p, or else the lowest within it.
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

// lowest returns the first free prefix of this length in pool that is not in except.
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
	if !n.member { // a node without two branches is not needed
		for side, c := range n.child {
			if c == nil {
				return n.child[1-side]
			}
		}
	}
	n.measure()
	return n
}

func (n *node) measure() {
	n.widest = full
	if !n.member {
		n.widest = min(n.child[0].widestIn(n.prefix.Bits()+1), n.child[1].widestIn(n.prefix.Bits()+1))
	}
}

// widestIn returns the length of the widest free prefix in a block of this length that contains only n. If n is wider than
// the block, it is a member.
func (n *node) widestIn(length int) int {
	switch {
	case n == nil:
		return length
	case n.prefix.Bits() > length:
		return length + 1 // the half that n is not in
	}
	return n.widest
}

// lowest searches a block that contains only n. It enters a half only if a wide enough gap is known to be in it, so only
// prefixes in except cost extra steps.
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

// within returns the members within sub, one half of block.
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
