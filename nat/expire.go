package nat

import "time"

// slice is how many flows Expire ends, at most, before it lets others make some.
const slice = 64

// Expire ends the flows that have timed out and tells how many. Call it about
// once a second: a flow that nobody has looked at lives on. It looks at all
// flows, a few nanoseconds each, on the caller's time; packets of flows do not
// wait for it, and packets that make a flow wait for microseconds.
func (m *Masquerade) Expire(now time.Time) (ended int) {
	sec := m.seconds(now)
	for from, to := 0, m.everUsed(); from < to; from += slice {
		flows := m.flows.entries[from:min(from+slice, to)]
		for i := range flows {
			if l := life(flows[i].life.Load()); l.live() && l.timedOut(sec) {
				ended += m.expire(uint32(from), uint32(from+len(flows)), sec)
				break
			}
		}
	}
	return ended
}

// expire ends the flows from one number up to another that have timed out.
func (m *Masquerade) expire(from, to, sec uint32) (ended int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := from; i < to; i++ {
		if m.end(i, sec, func(l life) bool { return l.timedOut(sec) }) {
			ended++
		}
	}
	m.counted.Expired += uint64(ended)
	return ended
}

// end ends a flow if it lives and due agrees, and with the last of a mapping the
// mapping, whose port then rests. The caller holds mu.
func (m *Masquerade) end(i, sec uint32, due func(life) bool) bool {
	key, ok := m.flows.end(i, due)
	if !ok {
		return false
	}
	mapping := &m.mappings.entries[key.mapping]
	inside, e, _, _ := mapping.read()
	m.sources.lost(inside)
	if mapping.flows--; mapping.flows > 0 {
		return true
	}
	if p := m.externals.Load().at(e.pool()); p != nil {
		p.hold(e.kind(), e.externalPort(), sec)
	}
	m.mappings.end(key.mapping)
	return true
}

// everUsed is how many of the flow entries may hold a flow: all before that number.
func (m *Masquerade) everUsed() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int(m.flows.free.fresh)
}
