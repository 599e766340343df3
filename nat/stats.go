package nat

import "time"

// Counters count events since the Masquerade was created.
type Counters struct {
	Created   uint64
	Expired   uint64 // ended because they were idle
	Evicted   uint64 // unanswered, ended because the table was full
	Withdrawn uint64 // ended because their external address was removed

	// Packets for which no flow was created: table full, no free port, too many flows of
	// the source.
	RefusedFlows, RefusedPorts, RefusedQuota uint64
}

// Stats is the state of a Masquerade.
type Stats struct {
	Counters
	Flows, MaxFlows int
	Sources         int // inside addresses that have flows
	Mappings        int // external ports in use
	Resting         int // freed external ports that may not be reused yet
	Ports           int // external ports, identifiers of ICMP queries included
}

// Stats returns the state. It takes microseconds, in which no flow can be created.
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

// Flow is a copy of one flow for display.
type Flow struct {
	Proto                    uint8
	Inside, External, Remote Endpoint
	Origin                   uint32
	Answered                 bool      // has received a packet from its remote
	State                    TCPState  // TCP only
	Last                     time.Time // last refreshed, to the second
	Ends                     time.Time // when it times out without further packets
}

// Flows yields each flow, in no order, until yield returns false. It takes no lock: a flow
// that begins or ends meanwhile may be included or not, but each flow is consistent.
func (m *Masquerade) Flows(yield func(Flow) bool) {
	for i := range m.everUsed() {
		if f, ok := m.flow(&m.flows.entries[i]); ok && !yield(f) {
			return
		}
	}
}

// flow copies the flow of an entry; ok is false if the entry has none.
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
