package nat

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"strait.dev/strait/packet"
)

// Masquerade holds the flows of sources whose addresses are unknown to the remote cluster.
// Each inside endpoint gets a port of an external address.
//
//   - Mapping is endpoint-independent: an inside endpoint has one external endpoint for all
//     remotes, and an inside address one external address (RFC 4787 REQ-1, REQ-2; RFC 5382
//     REQ-1).
//   - Filtering is address-dependent: a packet is accepted only from a remote address with
//     which the inside endpoint has a flow (RFC 4787 REQ-8, RFC 5382 REQ-3).
//   - A port belongs to one inside endpoint at a time and is chosen at random; a freed port
//     is reused after two minutes at the earliest (RFC 4787 REQ-3, RFC 6888 REQ-8, REQ-15).
//   - Only packets from inside create flows. A flow ends after its idle timeout (see the
//     constants of this package), and a mapping with its last flow. Neither a RST nor an ICMP
//     error ends a flow.
//   - The number of flows is limited, in total and per source. A full table refuses new
//     flows and keeps the existing ones, except for some that were never answered.
//
// The protocols are TCP, UDP and ICMP echo, each with its own ports, over IPv4 and IPv6.
//
// All methods may be called concurrently. A packet of an existing flow takes no lock, unless it
// has another origin than the one before; creating and ending flows share one. Only
// NewMasquerade and Use allocate.
//
// Memory (measured): 133 bytes per flow of the configured maximum, whether flows share
// mappings or not, and 768 KiB per external address. It is allocated at once; the kernel
// provides it as it is used.
type Masquerade struct {
	epoch     time.Time
	perSource uint32
	key       *hashKey
	flows     flowTable
	mappings  mappingTable
	externals atomic.Pointer[externals]
	mu        sync.Mutex // held to create and end flows; protects the fields below, and changes of the tables
	sources   sourceTable
	random    *rand.Rand
	counted   Counters
}

// MasqueradeConfig configures a Masquerade.
type MasqueradeConfig struct {
	// Flows is the maximum number of flows, at most 16 million; FlowsPerSource that of each
	// inside address.
	Flows, FlowsPerSource int
	// Random chooses ports and keys hash tables. Its output must be unpredictable:
	// rand.ChaCha8 with a secret seed. The Masquerade owns it and calls it from several
	// goroutines, but never concurrently.
	Random rand.Source
	// Epoch is the origin of times: now, or earlier.
	Epoch time.Time
}

// maxFlows keeps flow numbers below the mark bits stored with them.
const maxFlows = 1 << 24

// NewMasquerade returns a Masquerade without external addresses. It translates nothing until
// Use sets some.
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

// Outcome is the verdict on a packet.
type Outcome uint8

// The outcomes.
const (
	Translated  Outcome = iota
	Exhausted           // flow table full, no free port, or no external address of the family
	Quota               // the source has its maximum number of flows
	Unknown             // no flow, or the remote address was never contacted
	Unsupported         // neither TCP, UDP nor an ICMP query of its family
)

// Out returns the external source of a packet from inside to remote, if it is Translated. It
// creates a flow if there is none. origin is stored with the flow, without interpretation;
// the value of the last packet counts. tcpFlags is used for TCP only.
//
// The remote of an ICMP request has port 0; a reply has not and is Unsupported. A RST
// without a flow is Unknown.
func (m *Masquerade) Out(proto uint8, inside, remote Endpoint, origin uint32, tcpFlags uint8, now time.Time) (Endpoint, Outcome) {
	k, ok := kindOf(proto, inside.Addr, remote.Addr)
	if !ok || k == kindICMP && remote.Port != 0 {
		return Endpoint{}, Unsupported
	}
	p := outgoing{
		kind: k, inside: wordsOf(inside.Addr), insidePort: inside.Port, remote: wordsOf(remote.Addr), remotePort: remote.Port,
		origin: origin, flags: tcpFlags, sec: m.seconds(now),
	}
	external, f, l, ok := m.follow(&p)
	if !ok {
		return m.create(&p)
	}
	if f.origin.Load() != origin {
		m.mu.Lock()
		f.setOrigin(l, origin)
		m.mu.Unlock()
	}
	return external, Translated
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

// follow is Out for a packet of an existing flow, except for its origin. It returns the entry of the
// flow, and its life.
func (m *Masquerade) follow(p *outgoing) (Endpoint, *flow, life, bool) {
	at, e, live, ok := m.mappings.find(p.kind, p.inside, p.insidePort)
	if !ok {
		return Endpoint{}, nil, 0, false
	}
	i, l, ok := m.flows.find(flowKey{at, p.remote, p.remotePort})
	if !ok {
		return Endpoint{}, nil, 0, false
	}
	external, ok := m.external(at, e, live)
	f := &m.flows.entries[i]
	return external, f, l, ok && f.saw(l, Outgoing, p.flags, p.sec)
}

// external returns the external endpoint of a mapping, if that has not ended since it was read.
func (m *Masquerade) external(mapping uint32, e ends, live uint32) (Endpoint, bool) {
	p := m.externals.Load().at(e.pool())
	if p == nil || !m.mappings.entries[mapping].still(live) {
		return Endpoint{}, false
	}
	return Endpoint{p.addr, e.externalPort()}, true
}

// In returns the inside endpoint that a packet from remote to external is for, and the origin
// of its flow, if it is Translated. It is Unknown otherwise and should be dropped silently
// (RFC 5382 REQ-4).
//
// A packet from an address with which the inside endpoint has a flow is accepted regardless
// of its port; it changes the state of a flow only if the port matches.
func (m *Masquerade) In(proto uint8, remote, external Endpoint, tcpFlags uint8, now time.Time) (inside Endpoint, origin uint32, o Outcome) {
	k, at, inside, live, ok := m.owner(proto, remote, external)
	if !ok {
		return Endpoint{}, 0, Unknown
	}
	key := flowKey{at, wordsOf(remote.Addr), remote.Port}
	mapping := &m.mappings.entries[at]
	// A live flow belongs to the mapping that has its number now. If that mapping is still
	// the one that was read, flow and mapping belong together.
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

// owner returns the mapping of an external endpoint, its inside endpoint and its life.
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
		return k, 0, inside, 0, false // the mapping has ended, and its port is not freed yet
	}
	return k, at, Endpoint{addr.addr(), e.insidePort()}, live, true
}

// Outside returns the external endpoint of the flow to which a packet from remote to inside
// belonged. ICMP errors quote such packets. It changes no flow (RFC 4787 REQ-12, RFC 5382
// REQ-10, RFC 5508 REQ-6).
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
		return Endpoint{}, false // quotes a request from the remote, and none is ever accepted
	}
	if _, _, ok := m.flows.findPeer(flowKey{at, wordsOf(remote.Addr), remote.Port}); !ok {
		return Endpoint{}, false
	}
	return m.external(at, e, live)
}

// Inside returns the inside endpoint of the flow to which a packet from external to remote
// belonged, and the flow's origin. ICMP errors quote such packets. It changes no flow. ok is
// false for packets that were not sent in a flow: errors about them are dropped (RFC 5508
// REQ-4).
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

// create is Out for a packet without a flow, or whose flow has just ended.
func (m *Masquerade) create(p *outgoing) (Endpoint, Outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if external, f, l, ok := m.follow(p); ok {
		f.setOrigin(l, p.origin)
		return external, Translated
	}
	if p.kind == kindTCP && p.flags&packet.TCPFlagRST != 0 {
		return Endpoint{}, Unknown // with a new port it would mean nothing to the remote
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
		return Endpoint{}, Exhausted // cannot happen: a free entry was ensured above
	}
	m.mappings.entries[at].flows++
	m.sources.gained(p.inside, e.pool())
	m.flows.entries[i].saw(l, Outgoing, p.flags, p.sec)
	m.counted.Created++
	return Endpoint{m.externals.Load().at(e.pool()).addr, e.externalPort()}, Translated
}

// mapping returns the mapping of the packet's inside endpoint and creates it if necessary. ok
// is false when no port is free.
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

// choosePort returns a port for a new mapping, on the external address of the source.
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

// samples is the number of flows examined to find one to evict from a full table: few enough
// to be cheap in a flood, and enough to find one with a probability of 0.9 if an eighth of
// the flows may be evicted.
const samples = 16

// evictOne ends one flow of a full table: one that has timed out, or was never answered and
// has been idle for unansweredIdle. It examines random flows, so that no sender can choose
// the victim. It reports false when none of them may be ended.
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

// slice is the maximum number of flows that Expire ends while it holds the lock.
const slice = 64

// Expire ends the flows that have timed out and returns their number. Call it about once a
// second: flows do not end without it. It examines all flows, which takes a few nanoseconds
// each. Packets of existing flows do not wait for it, and packets that create a flow wait for
// microseconds.
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

// expire ends the timed-out flows among entries from to to-1.
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

// end ends a flow if it lives and due accepts its life, and with the last flow of a mapping
// the mapping, whose port then rests. The caller holds mu.
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

// everUsed returns the number of flow entries that were ever used; they come first.
func (m *Masquerade) everUsed() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int(m.flows.free.fresh)
}
