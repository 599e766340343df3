package nat

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
)

// externals are the pools by number; an unused number is nil. Immutable once published.
type externals []*pool

// maxExternals is the maximum number of external addresses. The lookup for a packet from
// the remote is linear.
const maxExternals = 256

// Use sets the external addresses, of either family; initially there are none. Flows on
// addresses that stay continue, the others end. Only the first 256 addresses are used. No
// flow can be created while Use runs.
func (m *Masquerade) Use(external []netip.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var wanted []netip.Addr
	for _, a := range external {
		if a = a.Unmap().WithZone(""); a.IsValid() && !slices.Contains(wanted, a) && len(wanted) < maxExternals {
			wanted = append(wanted, a)
		}
	}

	// The order matters: first no packet comes in through a pool to be removed, then its
	// flows end, and only then may another pool reuse its number.
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

// endWithout ends the flows whose external address is not in kept. The caller holds mu.
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

// with returns e with a pool added under the first unused number.
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

// find returns the pool of an address, nil if it is not an external address.
func (e externals) find(addr netip.Addr) *pool {
	for _, p := range e {
		if p != nil && p.addr == addr {
			return p
		}
	}
	return nil
}

// at returns the pool with a number, nil if there is none.
func (e externals) at(id uint16) *pool {
	if int(id) < len(e) {
		return e[id]
	}
	return nil
}

// choose returns an external address and a free port for a source without flows. The
// address is the one with the highest random weight for this source, so that a returning
// source gets the same address as long as it has free ports.
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

// pool is an external address with its ports. Its slots are read without a lock; writers
// hold Masquerade.mu.
type pool struct {
	addr  netip.Addr
	words words // of addr
	id    uint16

	slots [kinds][]slot // by port

	// full[k] is the first second in which a port of kind k can be free, known from a search
	// that found none. No search is made before it.
	full [kinds]uint32

	rests [restWindow]struct{ since, ports uint32 } // number of ports that rest, by the second they were freed
}

// restWindow is larger than portHold, so that two seconds that share an element of rests
// are never both relevant.
const restWindow = 128

// slot is the state of a port: 0 = free; n+1 = in use by mapping n; with the bit held set,
// free from portHold seconds after the time in the other bits.
type slot struct{ v atomic.Uint32 }

const held = 1 << 31

// Ports are chosen from firstPort up, and identifiers of ICMP queries from firstID up:
// identifier 0 is reserved for packets without one.
const (
	ports     = 1 << 16
	firstPort = 1024 // system ports may be treated specially by the remote
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

// owner returns the mapping that uses a port.
func (p *pool) owner(k kind, port uint16) (mapping uint32, ok bool) {
	v := p.slots[k][port].v.Load()
	return v - 1, v != 0 && v&held == 0
}

// give assigns a port to a mapping.
func (p *pool) give(k kind, port uint16, mapping uint32) { p.slots[k][port].v.Store(mapping + 1) }

// hold frees a port whose mapping has ended, after portHold seconds.
func (p *pool) hold(k kind, port uint16, sec uint32) {
	p.slots[k][port].v.Store(held | sec)
	r := &p.rests[sec%restWindow]
	if r.since != sec {
		r.since, r.ports = sec, 0
	}
	r.ports++
}

// freeFrom returns the first second in which a port can be free. A port in use has to rest
// first.
func (s *slot) freeFrom(sec uint32) uint32 {
	switch v := s.v.Load(); {
	case v == 0:
		return 0
	case v&held != 0:
		return v&^held + portHold + 1
	}
	return sec + portHold + 1
}

// guesses is the number of ports tried at random before all are tried in order.
const guesses = 16

// choose returns a free port, chosen at random: RFC 6888 REQ-15, RFC 6056 section 3.3.1. ok
// is false when there is none.
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

// resting returns the number of ports that rest.
func (p *pool) resting(sec uint32) (n int) {
	for _, r := range p.rests {
		if idle(r.since, sec) <= portHold {
			n += int(r.ports)
		}
	}
	return n
}
