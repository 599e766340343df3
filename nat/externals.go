package nat

import (
	"math/rand/v2"
	"net/netip"
	"slices"
)

// externals are the pools by their number; a number out of use is nil. Immutable
// once packets can see it.
type externals []*pool

// maxExternals is how many external addresses are used at most. A packet from a
// remote looks through all of them.
const maxExternals = 256

// Use sets the external addresses, of either family; until then there are none.
// Flows on those that were in use already go on, flows on others end. Only the
// first 256 count. Flows cannot be made while it runs.
func (m *Masquerade) Use(external []netip.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var wanted []netip.Addr
	for _, a := range external {
		if a = a.Unmap().WithZone(""); a.IsValid() && !slices.Contains(wanted, a) && len(wanted) < maxExternals {
			wanted = append(wanted, a)
		}
	}

	// In this order: nothing comes in by a pool that goes, then its flows end, and
	// only then may another pool have its number.
	kept := slices.Clone(*m.externals.Load())
	dropped := false
	for i, p := range kept {
		if p != nil && !slices.Contains(wanted, p.addr) {
			kept[i], dropped = nil, true
		}
	}
	m.externals.Store(&kept)
	if dropped {
		m.endWithout(kept)
	}

	next := slices.Clone(kept)
	for _, a := range wanted {
		if next.find(a) == nil {
			next = next.with(newPool(a))
		}
	}
	m.externals.Store(&next)
}

// endWithout ends the flows whose external address is not among these. The caller
// holds mu.
func (m *Masquerade) endWithout(kept externals) {
	for i := range m.flows.free.fresh {
		f := &m.flows.entries[i]
		if !life(f.life.Load()).live() {
			continue
		}
		if _, e, _, _ := m.mappings.entries[f.key().mapping].read(); kept.at(e.pool()) == nil {
			m.end(i, 0, func(life) bool { return true })
			m.counted.Withdrawn++
		}
	}
}

// with is e and a pool, which gets the first number that is out of use.
func (e externals) with(p *pool) externals {
	i := slices.Index(e, nil)
	if i < 0 {
		i = len(e)
		e = append(e, nil)
	}
	p.id = uint16(i)
	e[i] = p
	return e
}

// find is the pool of an address, nil if it is not an external one.
func (e externals) find(addr netip.Addr) *pool {
	for _, p := range e {
		if p != nil && p.addr == addr {
			return p
		}
	}
	return nil
}

// at is the pool with a number, nil if there is none.
func (e externals) at(id uint16) *pool {
	if int(id) < len(e) {
		return e[id]
	}
	return nil
}

// choose finds a port for a source that has no external address yet, and with
// the port that address. As long as it has ports, it is the same whenever the
// source comes back: of those that there are, the one with the highest random
// weight for this source.
func (e externals) choose(k kind, a words, key *hashKey, random *rand.Rand, sec uint32) (*pool, uint16, bool) {
	for {
		var best *pool
		var highest uint64
		for _, p := range e {
			if p == nil || p.addr.Is4() != a.is4() || sec < p.full[k] {
				continue
			}
			if w := key.hash(p.words, key.hash(a, tagSource)); best == nil || w > highest {
				best, highest = p, w
			}
		}
		if best == nil {
			return nil, 0, false
		}
		if port, ok := best.choose(k, random, sec); ok {
			return best, port, true
		}
	}
}
