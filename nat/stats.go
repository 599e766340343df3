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
