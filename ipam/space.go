package ipam

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Space contains the pools, reserved prefixes and grants. Not safe for concurrent use.
type Space struct {
	pools    []netip.Prefix
	reserved set
	used     set                        // what is reserved or granted
	uses     map[netip.Prefix][]string  // the uses of each member of used
	held     map[purpose][]netip.Prefix // grants by purpose
}

// Reserved is a prefix that is never granted.
type Reserved struct {
	Prefix netip.Prefix
	Use    string // for display, as in "this cluster's pod CIDR"
}

// Grant is a prefix, or a single address, granted to an owner.
type Grant struct {
	// Owner identifies one use, as in "peering b" or "internal address of node-1". It holds one prefix per wanted prefix,
	// and one address per family.
	Owner string
	// Wanted is the prefix for which Prefix was granted, of equal length; they may be equal. The zero Prefix means that any
	// address was wanted.
	Wanted netip.Prefix
	Prefix netip.Prefix
}

// purpose identifies what only one grant may serve.
type purpose struct {
	owner  string
	wanted netip.Prefix
	is4    bool
}

func (g Grant) purpose() purpose { return purpose{g.Owner, g.Wanted, g.Prefix.Addr().Is4()} }

var errNoOwner = errors.New("ipam: the owner has no name; say what the prefix or address is for")

func (g Grant) check() error {
	if g.Owner == "" {
		return errNoOwner
	}
	if err := check(g.Prefix); err != nil {
		return fmt.Errorf("ipam: the grant of %s: %w", g.Owner, err)
	}
	if g.Wanted == (netip.Prefix{}) {
		if !g.Prefix.IsSingleIP() {
			return fmt.Errorf("ipam: %v, granted to %s, is more than the one address that was wanted; grant a /%d",
				g.Prefix, g.Owner, g.Prefix.Addr().BitLen())
		}
		return nil
	}
	if err := check(g.Wanted); err != nil {
		return fmt.Errorf("ipam: what %s wanted: %w", g.Owner, err)
	}
	if g.Wanted.Bits() != g.Prefix.Bits() || g.Wanted.Addr().Is4() != g.Prefix.Addr().Is4() {
		return fmt.Errorf("ipam: %v, granted to %s, cannot stand for %v; grant one of its family and length",
			g.Prefix, g.Owner, g.Wanted)
	}
	return nil
}

// NewSpace returns a Space that grants from pools, in this order. Pools may have any length and family, but must not
// overlap. Reserved prefixes, and those that are taken, may be outside of the pools and may overlap. An error names the
// invalid prefix.
// The Space keeps no reference to its arguments.
func NewSpace(pools []netip.Prefix, reserved []Reserved) (*Space, error) {
	s := &Space{
		pools: slices.Clone(pools),
		uses:  make(map[netip.Prefix][]string),
		held:  make(map[purpose][]netip.Prefix),
	}
	if err := checkDisjoint(pools); err != nil {
		return nil, fmt.Errorf("ipam: pools: %w", err)
	}
	for _, r := range reserved {
		if err := check(r.Prefix); err != nil {
			return nil, fmt.Errorf("ipam: %s: %w", r.Use, err)
		}
		s.reserved.add(r.Prefix)
		s.use(r.Prefix, r.Use)
	}
	return s, nil
}

// checkDisjoint returns an error for a malformed prefix or for two that overlap.
func checkDisjoint(prefixes []netip.Prefix) error {
	var all set
	for _, p := range prefixes {
		if err := check(p); err != nil {
			return err
		}
		if other, ok := all.overlapping(p); ok {
			return fmt.Errorf("%v and %v overlap; leave one out or make it narrower", other, p)
		}
		all.add(p)
	}
	return nil
}

// Take records a grant. Taking it again is a no-op. The error is about a malformed grant; conflicts with other grants are
// not an error, because Decide resolves them.
func (s *Space) Take(g Grant) error {
	if err := g.check(); err != nil {
		return err
	}
	holder := g.purpose()
	if !slices.Contains(s.held[holder], g.Prefix) {
		s.held[holder] = append(s.held[holder], g.Prefix)
		s.use(g.Prefix, useOf(g))
	}
	return nil
}

// Release removes a grant. Releasing it again is a no-op.
func (s *Space) Release(g Grant) {
	holder := g.purpose()
	i := slices.Index(s.held[holder], g.Prefix)
	if i < 0 {
		return
	}
	s.held[holder] = slices.Delete(s.held[holder], i, i+1)
	if len(s.held[holder]) == 0 {
		delete(s.held, holder)
	}
	uses := s.uses[g.Prefix]
	i = slices.Index(uses, useOf(g))
	s.uses[g.Prefix] = slices.Delete(uses, i, i+1)
	if len(uses) == 1 {
		delete(s.uses, g.Prefix)
		s.used.remove(g.Prefix)
	}
}

func useOf(g Grant) string { return "the grant of " + g.Owner }

func (s *Space) use(p netip.Prefix, what string) {
	s.uses[p] = append(s.uses[p], what)
	s.used.add(p)
}
