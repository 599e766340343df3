package nat

import "time"

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
