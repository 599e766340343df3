package nat

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"strait.dev/strait/packet"
)

// Masquerade is the state of flows whose inside addresses mean nothing outside:
// each inside endpoint gets a port of an external address.
//
//   - The mapping is endpoint-independent: an inside endpoint has one external
//     endpoint for all remotes, and an inside address one external address (RFC
//     4787 REQ-1, REQ-2; RFC 5382 REQ-1).
//   - The filter is by address: a packet comes in only from a remote address
//     that this inside endpoint has a flow with (RFC 4787 REQ-8, RFC 5382 REQ-3).
//   - A port belongs to one inside endpoint at a time and is chosen at random; it
//     rests for two minutes before it is used again (RFC 4787 REQ-3, RFC 6888
//     REQ-8, REQ-15).
//   - Only packets from inside make flows. Flows end when they have been idle
//     for too long, see the constants of this package, and a mapping with its
//     last flow. Neither a RST nor an ICMP error ends one.
//   - The number of flows is bounded, in all and for each source. A full table
//     refuses new flows and leaves those that it has alone, but for some that
//     were never answered.
//
// Protocols are TCP, UDP and ICMP echo, each with ports of its own; IPv4 and IPv6.
//
// One goroutine at a time calls Out. Any number may call everything else beside
// it and each other. A packet of a flow that is there takes no lock; making and
// ending flows takes one that only those two share. Nothing allocates but
// NewMasquerade and Use.
//
// Memory, measured: 133 bytes for each of the flows that there may be, whether
// they share mappings or not, and 768 KiB for each external address. All of it
// is allocated at once; the kernel gives it as it is used.
type Masquerade struct {
	epoch     time.Time
	perSource uint32
	key       *hashKey
	flows     flowTable
	mappings  mappingTable
	externals atomic.Pointer[externals]
	mu        sync.Mutex // making and ending flows: what follows, and the tables' changes
	sources   sourceTable
	random    *rand.Rand
	counted   Counters
}

// MasqueradeConfig is what a Masquerade is made from.
type MasqueradeConfig struct {
	// Flows is how many there may be at a time, at most 16 million; FlowsPerSource
	// how many each inside address may have of them.
	Flows, FlowsPerSource int
	// Random chooses ports and keys hash tables. It must be such that nobody can
	// tell from what it gave what it will give: rand.ChaCha8 with a secret seed.
	// It is the Masquerade's from then on, which uses it from several goroutines, but
	// never at once.
	Random rand.Source
	// Epoch is what times are counted from: now, or earlier.
	Epoch time.Time
}

// maxFlows keeps numbers of flows apart from the marks beside them.
const maxFlows = 1 << 24

// NewMasquerade makes a Masquerade without external addresses, which translates
// nothing: give it some by Use.
func NewMasquerade(c MasqueradeConfig) *Masquerade {
	n := min(max(c.Flows, 0), maxFlows)
	random := rand.New(c.Random)
	key := newHashKey(random)
	m := &Masquerade{
		epoch: c.Epoch, perSource: uint32(min(max(c.FlowsPerSource, 0), n)), key: &key,
		flows: newFlowTable(n, &key), mappings: newMappingTable(n, &key), sources: newSourceTable(n, &key),
		random: random,
	}
	m.externals.Store(&externals{})
	return m
}

// Outcome is what becomes of a packet.
type Outcome uint8

// The outcomes.
const (
	Translated  Outcome = iota
	Exhausted           // no room for another flow, no free port, or no external address of the family
	Quota               // the source has as many flows as it may have
	Unknown             // belongs to no flow, or comes from where the inside sent nothing
	Unsupported         // neither TCP, UDP nor an ICMP query of its family
)

// Out is a packet from inside to remote: its external source, if it is Translated.
// It makes a flow if there is none. origin means nothing here; it is remembered
// with the flow, that of the last packet. tcpFlags are read for TCP alone.
//
// The remote of an ICMP query has port 0; a reply, of which that is not true, is
// Unsupported. A RST without a flow is Unknown.
func (m *Masquerade) Out(proto uint8, inside, remote Endpoint, origin uint32, tcpFlags uint8, now time.Time) (Endpoint, Outcome) {
	k, ok := kindOf(proto, inside.Addr, remote.Addr)
	if !ok || k == kindICMP && remote.Port != 0 {
		return Endpoint{}, Unsupported
	}
	p := outgoing{
		kind: k, inside: wordsOf(inside.Addr), insidePort: inside.Port, remote: wordsOf(remote.Addr), remotePort: remote.Port,
		origin: origin, flags: tcpFlags, sec: m.seconds(now),
	}
	if external, ok := m.follow(&p); ok {
		return external, Translated
	}
	return m.create(&p)
}

// outgoing is a packet from inside.
type outgoing struct {
	kind                   kind
	inside, remote         words
	insidePort, remotePort uint16
	origin                 uint32
	flags                  uint8
	sec                    uint32
}

// follow is Out for a packet of a flow that is there.
func (m *Masquerade) follow(p *outgoing) (Endpoint, bool) {
	at, e, live, ok := m.mappings.find(p.kind, p.inside, p.insidePort)
	if !ok {
		return Endpoint{}, false
	}
	i, l, ok := m.flows.find(flowKey{at, p.remote, p.remotePort})
	if !ok {
		return Endpoint{}, false
	}
	external, ok := m.external(at, e, live)
	f := &m.flows.entries[i]
	if !ok || !f.saw(l, Outgoing, p.flags, p.sec) {
		return Endpoint{}, false
	}
	// The entry may have lost its flow meanwhile, but not got another: this very
	// goroutine is the one that makes them.
	if f.origin.Load() != p.origin {
		f.origin.Store(p.origin)
	}
	return external, true
}

// external is the external end of a mapping, if that has not ended since it was read.
func (m *Masquerade) external(mapping uint32, e ends, live uint32) (Endpoint, bool) {
	p := m.externals.Load().at(e.pool())
	if p == nil || !m.mappings.entries[mapping].still(live) {
		return Endpoint{}, false
	}
	return Endpoint{p.addr, e.externalPort()}, true
}

// In is a packet from remote to external: the inside that it is for and the
// origin of its flow, if it is Translated. It is Unknown otherwise, and the rule
// is to drop it without a word (RFC 5382 REQ-4).
//
// A packet from an address that the inside has a flow with comes in whatever its
// port; only with the port of a flow does it change that flow's state.
func (m *Masquerade) In(proto uint8, remote, external Endpoint, tcpFlags uint8, now time.Time) (inside Endpoint, origin uint32, o Outcome) {
	k, at, inside, live, ok := m.owner(proto, remote, external)
	if !ok {
		return Endpoint{}, 0, Unknown
	}
	key := flowKey{at, wordsOf(remote.Addr), remote.Port}
	mapping := &m.mappings.entries[at]
	// A flow that lives belongs to the mapping that has its number now. So if that
	// is still the one that was read, they belong together.
	if i, l, ok := m.flows.find(key); ok && mapping.still(live) {
		f := &m.flows.entries[i]
		origin = f.origin.Load()
		if f.saw(l, Incoming, tcpFlags, m.seconds(now)) {
			return inside, origin, Translated
		}
	}
	if k != kindICMP {
		if _, origin, ok = m.flows.findPeer(key); ok && mapping.still(live) {
			return inside, origin, Translated
		}
	}
	return Endpoint{}, 0, Unknown
}

// owner is the mapping that has an external endpoint, with its inside and its life.
func (m *Masquerade) owner(proto uint8, remote, external Endpoint) (k kind, at uint32, inside Endpoint, live uint32, ok bool) {
	k, ok = kindOf(proto, remote.Addr, external.Addr)
	if !ok {
		return k, 0, inside, 0, false
	}
	p := m.externals.Load().find(external.Addr)
	if p == nil {
		return k, 0, inside, 0, false
	}
	if at, ok = p.owner(k, external.Port); !ok {
		return k, 0, inside, 0, false
	}
	addr, e, live, ok := m.mappings.entries[at].read()
	if !ok || e != newEnds(k, e.insidePort(), p.id, external.Port) {
		return k, 0, inside, 0, false // it has ended, and the port is not yet taken back
	}
	return k, at, Endpoint{addr.addr(), e.insidePort()}, live, true
}

// Outside is the external end of the flow that a packet from remote to inside
// belonged to, which an ICMP error quotes. It changes no flow (RFC 4787 REQ-12,
// RFC 5382 REQ-10, RFC 5508 REQ-6).
func (m *Masquerade) Outside(proto uint8, inside, remote Endpoint) (external Endpoint, ok bool) {
	k, ok := kindOf(proto, inside.Addr, remote.Addr)
	if !ok {
		return Endpoint{}, false
	}
	at, e, live, ok := m.mappings.find(k, wordsOf(inside.Addr), inside.Port)
	if !ok {
		return Endpoint{}, false
	}
	if k == kindICMP && remote.Port != 0 {
		return Endpoint{}, false // quotes a request, and none was ever let in
	}
	if _, _, ok := m.flows.findPeer(flowKey{at, wordsOf(remote.Addr), remote.Port}); !ok {
		return Endpoint{}, false
	}
	return m.external(at, e, live)
}

// Inside is the inside of the flow that a packet from external to remote
// belonged to, which an ICMP error quotes, and the flow's origin. It changes no
// flow. Only what was sent in a flow is known: an error about anything else
// reaches nobody (RFC 5508 REQ-4).
func (m *Masquerade) Inside(proto uint8, remote, external Endpoint) (inside Endpoint, origin uint32, ok bool) {
	_, at, inside, live, ok := m.owner(proto, remote, external)
	if !ok {
		return Endpoint{}, 0, false
	}
	i, l, ok := m.flows.find(flowKey{at, wordsOf(remote.Addr), remote.Port})
	if !ok {
		return Endpoint{}, 0, false
	}
	f := &m.flows.entries[i]
	origin = f.origin.Load()
	if !m.mappings.entries[at].still(live) || !life(f.life.Load()).same(l) {
		return Endpoint{}, 0, false
	}
	return inside, origin, true
}

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
