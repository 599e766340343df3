package nat

import "time"

// Counters count what became of flows since the Masquerade was made.
type Counters struct {
	Created   uint64
	Expired   uint64 // ended because they were idle
	Evicted   uint64 // never answered, ended because the table was full
	Withdrawn uint64 // ended because their external address is not used any more

	// Packets for which no flow was made: no room in the table, no free port, and
	// too many flows of their source.
	RefusedFlows, RefusedPorts, RefusedQuota uint64
}

// Stats are the state of a Masquerade.
type Stats struct {
	Counters
	Flows, MaxFlows int
	Sources         int // inside addresses that have flows
	Mappings        int // external ports in use
	Resting         int // external ports that wait until they may be used again
	Ports           int // external ports, identifiers of ICMP queries among them
}

// Stats reads the state: microseconds, in which no flow is made.
func (m *Masquerade) Stats(now time.Time) Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Stats{
		Counters: m.counted,
		Flows:    int(m.flows.free.used), MaxFlows: int(m.flows.free.size),
		Sources: int(m.sources.free.used), Mappings: int(m.mappings.free.used),
	}
	for _, p := range *m.externals.Load() {
		if p == nil {
			continue
		}
		s.Resting += p.resting(m.seconds(now))
		for k := range kinds {
			s.Ports += int(ports - firstOf(k))
		}
	}
	return s
}

// Flow is one flow as people see it: a copy.
type Flow struct {
	Proto                    uint8
	Inside, External, Remote Endpoint
	Origin                   uint32
	Answered                 bool      // has got a packet from its remote
	State                    TCPState  // of TCP alone
	Last                     time.Time // when it was kept alive, to the second
	Ends                     time.Time // when it may end if nothing more comes
}

// Flows yields each flow, in no order, until yield returns false. It holds no
// lock: a flow that begins or ends meanwhile may be among them or not, but none
// is half one and half another.
func (m *Masquerade) Flows(yield func(Flow) bool) {
	for i := range m.everUsed() {
		if f, ok := m.flow(&m.flows.entries[i]); ok && !yield(f) {
			return
		}
	}
}

// flow copies the flow of an entry; ok is false if it has none.
func (m *Masquerade) flow(f *flow) (Flow, bool) {
	l := life(f.life.Load())
	if !l.live() {
		return Flow{}, false
	}
	key, origin := f.key(), f.origin.Load()
	if !life(f.life.Load()).same(l) {
		return Flow{}, false
	}
	inside, e, live, ok := m.mappings.entries[key.mapping].read()
	if !ok {
		return Flow{}, false
	}
	external, ok := m.external(key.mapping, e, live)
	if !ok || !life(f.life.Load()).same(l) {
		return Flow{}, false
	}
	addr := inside.addr()
	last := m.epoch.Add(time.Duration(l.last()) * time.Second)
	return Flow{
		Proto:  l.kind().proto(addr),
		Inside: Endpoint{addr, e.insidePort()}, External: external, Remote: Endpoint{key.remote.addr(), key.port},
		Origin: origin, Answered: l.answered(), State: l.state(),
		Last: last, Ends: last.Add(time.Duration(idleLimit(l.kind(), l.state())) * time.Second),
	}, true
}
