package ipam

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Remote is a prefix of a remote cluster.
type Remote struct {
	CIDR netip.Prefix
	// Moved is why this cluster must not see it under its own addresses, also where they are free: a phrase for display.
	// Empty: it may.
	Moved string
}

// Mapping is a prefix of a remote cluster and the prefix of equal length under which this cluster sees it; host bits are
// kept.
type Mapping struct {
	CIDR   netip.Prefix
	SeenAs netip.Prefix
	Reason string // for display: why SeenAs is CIDR or another prefix
}

// Plan returns the prefixes under which this cluster sees the remote cluster called owner. Each CIDR is mapped to the
// prefix that owner already holds for it; or to itself, in a pool or not, if it may be and overlaps nothing that is
// reserved or granted; or else to the lowest free prefix of its length in the pools. No CIDR that can be mapped to itself
// loses its place to another one, and of the others the widest chooses first, so the order of remote affects only the order
// of the result.
//
// Nothing is recorded: the caller stores claims. Once their grants are in the Space, the plan of another cluster cannot
// change them.
//
// The error is as with Prefix; overlapping prefixes of one cluster are an error too.
func (s *Space) Plan(owner string, remote []Remote) ([]Mapping, error) {
	if owner == "" {
		return nil, errNoOwner
	}
	if err := disjoint(remote); err != nil {
		return nil, fmt.Errorf("ipam: prefixes of %s: %w", owner, err)
	}
	var planned []Grant
	defer func() {
		for _, g := range planned {
			s.Release(g)
		}
	}()
	settle := func(m *Mapping, seenAs netip.Prefix) error {
		m.SeenAs = seenAs
		g := Grant{owner, m.CIDR, seenAs}
		planned = append(planned, g)
		return s.Take(g)
	}

	plan := make([]Mapping, len(remote))
	var moving []*Mapping
	for i, r := range remote {
		m, cidr := &plan[i], r.CIDR
		held, holding := s.holdingFor(owner, cidr)
		obstacle, blocked := s.obstacle(cidr)
		if !blocked {
			obstacle = r.Moved
		}
		switch {
		case holding && held == cidr && r.Moved != "":
			*m = Mapping{cidr, cidr, fmt.Sprintf("%v was granted before, and stays", cidr)}
		case holding && held == cidr:
			*m = Mapping{cidr, cidr, unobstructed(cidr)}
		case holding && obstacle != "":
			*m = Mapping{cidr, held, obstacle}
		case holding:
			*m = Mapping{cidr, held, fmt.Sprintf("%v was granted when %v was not free", held, cidr)}
		case obstacle != "":
			*m = Mapping{CIDR: cidr, Reason: obstacle}
			moving = append(moving, m)
		default:
			*m = Mapping{CIDR: cidr, Reason: unobstructed(cidr)}
			if err := settle(m, cidr); err != nil {
				return nil, err
			}
		}
	}
	slices.SortFunc(moving, func(a, b *Mapping) int {
		return cmp.Or(cmp.Compare(a.CIDR.Bits(), b.CIDR.Bits()), a.CIDR.Compare(b.CIDR))
	})
	for _, m := range moving {
		seenAs, err := s.lowest(m.CIDR)
		if err == nil {
			err = settle(m, seenAs)
		}
		if err != nil {
			return nil, fmt.Errorf("%s, and no other prefix is free: %w", m.Reason, err)
		}
	}
	return plan, nil
}

func disjoint(remote []Remote) error {
	prefixes := make([]netip.Prefix, len(remote))
	for i, r := range remote {
		prefixes[i] = r.CIDR
	}
	return checkDisjoint(prefixes)
}

func unobstructed(cidr netip.Prefix) string {
	return fmt.Sprintf("%v overlaps no prefix in use in this cluster", cidr)
}

// obstacle returns a description of a reserved or granted prefix that overlaps cidr.
func (s *Space) obstacle(cidr netip.Prefix) (string, bool) {
	p, ok := s.used.overlapping(cidr)
	if !ok {
		return "", false
	}
	return fmt.Sprintf("%v overlaps %s %v", cidr, slices.Min(s.uses[p]), p), true
}
