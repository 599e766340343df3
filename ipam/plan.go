package ipam

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// Mapping is a prefix of a remote cluster and the one under which this cluster
// sees it, of equal length; host bits are kept.
type Mapping struct {
	CIDR   netip.Prefix
	SeenAs netip.Prefix
	Reason string // a phrase for people: why SeenAs is CIDR or another
}

// Plan says under which prefixes the remote cluster called owner is to be seen:
// each under what owner holds for it already; or as it is, in a pool or not, if
// nothing overlaps it that is reserved or granted; or else under the lowest free
// prefix of its length, as with Prefix. No prefix that may stay as it is loses
// its place to one that moves, and of those that move the widest chooses first,
// so the order of remote says only in which order the answer comes.
//
// Nothing is recorded: the caller stores claims. Once their grants are in the
// Space, the plan of another cluster cannot change them.
//
// The error is as with Prefix; prefixes of one cluster that overlap are one too.
func (s *Space) Plan(owner string, remote []netip.Prefix) ([]Mapping, error) {
	if owner == "" {
		return nil, errNoOwner
	}
	if err := checkDisjoint(remote); err != nil {
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
	for i, cidr := range remote {
		m := &plan[i]
		held, holding := s.holdingFor(owner, cidr)
		obstacle, blocked := s.obstacle(cidr)
		switch {
		case holding && held == cidr:
			*m = Mapping{cidr, cidr, unobstructed(cidr)}
		case holding && blocked:
			*m = Mapping{cidr, held, obstacle}
		case holding:
			*m = Mapping{cidr, held, fmt.Sprintf("%v was granted when %v was not free", held, cidr)}
		case blocked:
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
			return nil, fmt.Errorf("%s, and nothing else is left: %w", m.Reason, err)
		}
	}
	return plan, nil
}

func unobstructed(cidr netip.Prefix) string {
	return fmt.Sprintf("%v overlaps nothing that is in use here", cidr)
}

// obstacle says what is reserved or granted and overlaps cidr.
func (s *Space) obstacle(cidr netip.Prefix) (string, bool) {
	p, ok := s.used.overlapping(cidr)
	if !ok {
		return "", false
	}
	return fmt.Sprintf("%v overlaps %s %v", cidr, slices.Min(s.uses[p]), p), true
}
