package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Prefix returns the prefix to grant to owner for wanted: the one it already holds; or wanted itself, if that lies in a
// pool and is free; or else the lowest free prefix of its length in the first pool that has one. An owner keeps what it
// holds when pools change, but not when it has become reserved.
//
// Nothing is recorded: the caller stores a claim and adds it to the Space with Take. If the owner holds another claim for
// wanted, the caller has to delete it first.
//
// The error is an *ExhaustedError, or describes an invalid argument.
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

// Address returns the address to grant to owner from pool, which must be one of the Space's: the one it already holds
// there, or else the lowest free one. Pools with more than two addresses exclude the first (the network address of IPv4,
// the subnet-router anycast address of RFC 4291 section 2.6.1), and IPv4 pools also the last (the broadcast address);
// pairs and single addresses do not (RFC 3021, RFC 6164).
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

func (s *Space) holdingFor(owner string, wanted netip.Prefix) (netip.Prefix, bool) {
	anywhere := func(netip.Prefix) bool { return true }
	return s.holding(purpose{owner, wanted, wanted.Addr().Is4()}, anywhere)
}

// holding returns the lowest prefix that is held for a purpose, not reserved, and accepted by the caller.
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

// lowest returns the first free prefix with the family and length of wanted.
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

// ExhaustedError is the error when no pool has a free prefix of the required length.
type ExhaustedError struct {
	Pools  []netip.Prefix // the pools of the family; empty if there are none
	Length int            // of the prefix; 32 or 128 for an address
	IPv6   bool
}

func (e *ExhaustedError) Error() string {
	if len(e.Pools) == 0 {
		family := "IPv4"
		if e.IPv6 {
			family = "IPv6"
		}
		return fmt.Sprintf("ipam: no %s pool is configured, and a /%d is needed; add a pool to the spec of ClusterNetwork", family, e.Length)
	}
	return fmt.Sprintf("ipam: no /%d is free in %s; add a pool to the spec of ClusterNetwork, or delete unused claims",
		e.Length, join(e.Pools))
}

func join(prefixes []netip.Prefix) string {
	var s []string
	for _, p := range prefixes {
		s = append(s, p.String())
	}
	return strings.Join(s, ", ")
}
