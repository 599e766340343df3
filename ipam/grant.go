package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Prefix is the prefix to grant to owner in place of wanted: what it holds for
// it already; or wanted itself, if that lies in a pool and is free; or else the
// lowest free prefix of its length in the first pool that has one. What an owner
// holds it keeps when pools change, but not when it has become reserved.
//
// Nothing is recorded: the caller stores a claim, and tells the Space with Take.
// A claim that the owner holds for wanted and that is not the answer has to be
// deleted first.
//
// The error is an *ExhaustedError, or says what is wrong with the arguments.
func (s *Space) Prefix(owner string, wanted netip.Prefix) (netip.Prefix, error) {
	if owner == "" {
		return netip.Prefix{}, errNoOwner
	}
	if err := check(wanted); err != nil {
		return netip.Prefix{}, fmt.Errorf("ipam: what %s wants: %w", owner, err)
	}
	if held, ok := s.holdingFor(owner, wanted); ok {
		return held, nil
	}
	inPool := func(pool netip.Prefix) bool { return pool == wanted || holds(pool, wanted) }
	if slices.ContainsFunc(s.pools, inPool) && s.free(wanted) {
		return wanted, nil
	}
	return s.lowest(wanted)
}

// Address is the address to grant to owner out of pool, which must be one of the
// Space's: what it holds there already, or else the lowest free one. Pools with
// more than two addresses keep back the first (the network address of IPv4, the
// subnet-router anycast address of RFC 4291 section 2.6.1), and the last if they
// are IPv4 (the broadcast address); pairs and single addresses do not (RFC 3021,
// RFC 6164).
//
// Nothing is recorded, and the error is as with Prefix.
func (s *Space) Address(owner string, pool netip.Prefix) (netip.Addr, error) {
	if owner == "" {
		return netip.Addr{}, errNoOwner
	}
	if !slices.Contains(s.pools, pool) {
		return netip.Addr{}, fmt.Errorf("ipam: %v is not a pool; take addresses from one of %s", pool, join(s.pools))
	}
	inPool := func(p netip.Prefix) bool { return pool.Contains(p.Addr()) }
	if held, ok := s.holding(purpose{owner: owner, is4: pool.Addr().Is4()}, inPool); ok {
		return held.Addr(), nil
	}
	length := pool.Addr().BitLen()
	free, ok := s.used.lowest(pool, length, keptBack(pool))
	if !ok {
		return netip.Addr{}, &ExhaustedError{Pools: []netip.Prefix{pool}, Length: length, IPv6: length == 128}
	}
	return free.Addr(), nil
}

// keptBack are the addresses of a pool that are nobody's.
func keptBack(pool netip.Prefix) []netip.Prefix {
	length := pool.Addr().BitLen()
	switch {
	case pool.Bits() >= length-1:
		return nil
	case length == 128:
		return []netip.Prefix{netip.PrefixFrom(pool.Addr(), length)}
	}
	return []netip.Prefix{netip.PrefixFrom(pool.Addr(), length), netip.PrefixFrom(last(pool), length)}
}

// holdingFor is what owner holds in place of wanted.
func (s *Space) holdingFor(owner string, wanted netip.Prefix) (netip.Prefix, bool) {
	anywhere := func(netip.Prefix) bool { return true }
	return s.holding(purpose{owner, wanted, wanted.Addr().Is4()}, anywhere)
}

// holding is the lowest prefix that is held for a purpose, is not reserved, and
// is one that the caller accepts.
func (s *Space) holding(why purpose, accept func(netip.Prefix) bool) (lowest netip.Prefix, ok bool) {
	for _, p := range s.held[why] {
		if _, reserved := s.reserved.overlapping(p); reserved || !accept(p) {
			continue
		}
		if !ok || p.Compare(lowest) < 0 {
			lowest, ok = p, true
		}
	}
	return lowest, ok
}

func (s *Space) free(p netip.Prefix) bool {
	_, used := s.used.overlapping(p)
	return !used
}

// lowest is the first free prefix of the family and length of wanted.
func (s *Space) lowest(wanted netip.Prefix) (netip.Prefix, error) {
	exhausted := &ExhaustedError{Length: wanted.Bits(), IPv6: wanted.Addr().Is6()}
	for _, pool := range s.pools {
		if pool.Addr().Is6() != exhausted.IPv6 {
			continue
		}
		if free, ok := s.used.lowest(pool, wanted.Bits(), nil); ok {
			return free, nil
		}
		exhausted.Pools = append(exhausted.Pools, pool)
	}
	return netip.Prefix{}, exhausted
}

// ExhaustedError says that no pool has a free block of the length that is needed.
type ExhaustedError struct {
	Pools  []netip.Prefix // all that may be taken from; none if there is no pool of the family
	Length int            // of the prefix; 32 or 128 for an address
	IPv6   bool
}

func (e *ExhaustedError) Error() string {
	if len(e.Pools) == 0 {
		family := "IPv4"
		if e.IPv6 {
			family = "IPv6"
		}
		return fmt.Sprintf("ipam: there is no %s pool to take a /%d from; add one to the spec of ClusterNetwork", family, e.Length)
	}
	return fmt.Sprintf("ipam: no /%d is free in %s; add a pool to the spec of ClusterNetwork, or delete claims that nobody needs",
		e.Length, join(e.Pools))
}

func join(prefixes []netip.Prefix) string {
	var s []string
	for _, p := range prefixes {
		s = append(s, p.String())
	}
	return strings.Join(s, ", ")
}
