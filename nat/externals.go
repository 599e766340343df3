package nat

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
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

// pool is an external address with its ports. Its slots are read without a lock;
// whatever changes them holds Masquerade.mu.
type pool struct {
	addr  netip.Addr
	words words // of addr
	id    uint16

	slots [kinds][]slot // by port

	// full[k] is the first second in which a port of that kind can be free, known
	// from a search that found none: in between nobody searches again.
	full [kinds]uint32

	rests [restWindow]struct{ since, ports uint32 } // how many ports rest since when
}

// restWindow is more seconds than a port rests, so that a second and the one that
// takes its place are never both of interest.
const restWindow = 128

// slot says whose a port is: 0 nobody's, that of mapping n as n+1, or, with the
// bit held, nobody's until portHold seconds after the time in the other bits.
type slot struct{ v atomic.Uint32 }

const held = 1 << 31

// Ports are chosen from firstPort up, and identifiers of ICMP queries from
// firstID up: 0 is what packets without one have.
const (
	ports     = 1 << 16
	firstPort = 1024 // those below may mean something to the remote
	firstID   = 1
)

func firstOf(k kind) uint32 {
	if k == kindICMP {
		return firstID
	}
	return firstPort
}

func newPool(addr netip.Addr) *pool {
	p := &pool{addr: addr, words: wordsOf(addr)}
	for k := range p.slots {
		p.slots[k] = make([]slot, ports)
	}
	return p
}

// owner is the mapping that a port belongs to.
func (p *pool) owner(k kind, port uint16) (mapping uint32, ok bool) {
	v := p.slots[k][port].v.Load()
	return v - 1, v != 0 && v&held == 0
}

// give lets a mapping have a port.
func (p *pool) give(k kind, port uint16, mapping uint32) { p.slots[k][port].v.Store(mapping + 1) }

// hold takes a port back from a mapping that has ended.
func (p *pool) hold(k kind, port uint16, sec uint32) {
	p.slots[k][port].v.Store(held | sec)
	r := &p.rests[sec%restWindow]
	if r.since != sec {
		r.since, r.ports = sec, 0
	}
	r.ports++
}

// freeFrom is the first second in which a port is free as far as is known; one
// that is in use cannot be before it has been held.
func (s *slot) freeFrom(sec uint32) uint32 {
	switch v := s.v.Load(); {
	case v == 0:
		return 0
	case v&held != 0:
		return v&^held + portHold + 1
	}
	return sec + portHold + 1
}

// guesses is how many ports are tried at random before all are tried in turn.
const guesses = 16

// choose finds a free port, at random: RFC 6888 REQ-15, RFC 6056 section 3.3.1.
// ok is false when there is none.
func (p *pool) choose(k kind, random *rand.Rand, sec uint32) (port uint16, ok bool) {
	if sec < p.full[k] {
		return 0, false
	}
	first := firstOf(k)
	n := ports - first
	for range guesses {
		at := first + random.Uint32N(n)
		if p.slots[k][at].freeFrom(sec) <= sec {
			return uint16(at), true
		}
	}
	start, soonest := random.Uint32N(n), sec+portHold+1
	for i := range n {
		at := first + (start+i)%n
		from := p.slots[k][at].freeFrom(sec)
		if from <= sec {
			return uint16(at), true
		}
		soonest = min(soonest, from)
	}
	p.full[k] = soonest
	return 0, false
}

// resting is how many ports are nobody's because they still rest.
func (p *pool) resting(sec uint32) (n int) {
	for _, r := range p.rests {
		if idle(r.since, sec) <= portHold {
			n += int(r.ports)
		}
	}
	return n
}
