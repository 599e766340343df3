package nat

import "strait.dev/strait/packet"

// create is Out for a packet that belongs to no flow, or to one that ends just now.
func (m *Masquerade) create(p *outgoing) (Endpoint, Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if external, ok := m.follow(p); ok {
		return external, Translated
	}
	if p.kind == kindTCP && p.flags&packet.TCPFlagRST != 0 {
		return Endpoint{}, Unknown // with a port that the remote never saw it would tell nothing
	}
	if s := m.sources.find(p.inside); m.perSource == 0 || s != nil && s.flows >= m.perSource {
		m.counted.RefusedQuota++
		return Endpoint{}, Quota
	}
	if m.flows.free.used == m.flows.free.size && !m.evictOne(p.sec) {
		m.counted.RefusedFlows++
		return Endpoint{}, Exhausted
	}
	at, e, ok := m.mapping(p)
	if !ok {
		m.counted.RefusedPorts++
		return Endpoint{}, Exhausted
	}
	i, l, ok := m.flows.add(flowKey{at, p.remote, p.remotePort}, p.kind, p.origin, p.sec)
	if !ok {
		return Endpoint{}, Exhausted // never: there was room
	}
	m.mappings.entries[at].flows++
	m.sources.gained(p.inside, e.pool())
	m.flows.entries[i].saw(l, Outgoing, p.flags, p.sec)
	m.counted.Created++
	return Endpoint{m.externals.Load().at(e.pool()).addr, e.externalPort()}, Translated
}

// mapping is that of a packet's inside, made if there is none. ok is false when
// no port is free.
func (m *Masquerade) mapping(p *outgoing) (at uint32, e ends, ok bool) {
	if at, e, _, ok = m.mappings.find(p.kind, p.inside, p.insidePort); ok {
		return at, e, true
	}
	pool, port, ok := m.choosePort(p)
	if !ok {
		return 0, 0, false
	}
	e = newEnds(p.kind, p.insidePort, pool.id, port)
	if at, ok = m.mappings.add(p.inside, e); ok { // always: there are as many mappings as flows
		pool.give(p.kind, port, at)
	}
	return at, e, ok
}

// choosePort finds a port for a new mapping, of the source's external address.
func (m *Masquerade) choosePort(p *outgoing) (*pool, uint16, bool) {
	all := *m.externals.Load()
	s := m.sources.find(p.inside)
	if s == nil {
		return all.choose(p.kind, p.inside, m.key, m.random, p.sec)
	}
	pool := all.at(s.pool)
	port, ok := pool.choose(p.kind, m.random, p.sec)
	return pool, port, ok
}

// samples is how many flows are looked at for one to end in a full table: few
// enough to cost nothing in a flood, enough to find one if an eighth of them
// may be ended, nine times out of ten.
const samples = 16

// evictOne ends one flow of a full table: one that has timed out, or was never
// answered and has been idle for unansweredIdle. It looks at a few at random, so
// that nobody can aim it. It reports false when none of those may be ended.
func (m *Masquerade) evictOne(sec uint32) bool {
	if m.flows.free.size == 0 {
		return false
	}
	for range samples {
		i := m.random.Uint32N(m.flows.free.size)
		switch {
		case m.end(i, sec, func(l life) bool { return l.timedOut(sec) }):
			m.counted.Expired++
			return true
		case m.end(i, sec, func(l life) bool { return !l.answered() && idle(l.last(), sec) > unansweredIdle }):
			m.counted.Evicted++
			return true
		}
	}
	return false
}
