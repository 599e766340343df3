package gateway

import (
	"sync"
	"time"

	"strait.dev/strait/packet"
)

// reassembler is the fragments of one direction. Its lock is that of fragments alone.
type reassembler struct {
	mu         sync.Mutex
	reassembly *packet.Reassembly
	counted    packet.ReassemblyStats // of what was lost
}

// add adds a fragment to the rest of its datagram. When that is whole, a copy of it is
// made in buffer, which has to hold packet.MaxLen bytes, with the length of its longest
// fragment, and ip is that of the whole. Until then whole is nil, with the reason if the
// fragment was dropped and NoReason if it waits.
func (g *reassembler) add(c *Counters, buffer, b []byte, ip *packet.IP, now time.Time) (whole []byte, longest int, reason Reason) {
	g.mu.Lock()
	defer g.mu.Unlock()
	b, longest, fault := g.reassembly.Add(b, ip, now)
	if s := g.reassembly.Stats(); s != g.counted {
		c.CountDropped(FragmentTimeout, uint64(s.TimedOut-g.counted.TimedOut))
		c.CountDropped(FragmentMemory, uint64(s.Evicted-g.counted.Evicted))
		g.counted = s
	}
	if b == nil {
		return nil, 0, reassemblyReason[fault]
	}
	if f := packet.Parse(b, ip); f != packet.FaultNone {
		return nil, 0, reasonOf[f]
	}
	return buffer[:copy(buffer, b)], longest, NoReason
}

// expire forgets datagrams that have waited too long; the next fragment counts them.
func (g *reassembler) expire(now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reassembly.Expire(now)
}

var reassemblyReason = [...]Reason{
	packet.ReassemblyHeld:    NoReason,
	packet.ReassemblyMemory:  FragmentMemory,
	packet.ReassemblyOverlap: FragmentOverlap,
	packet.ReassemblyTooLong: IPFragment,
	packet.ReassemblyTiny:    IPFragment,
	packet.ReassemblyECN:     ECN,
}

// cut cuts a packet that is larger than mtu. An IPv6 packet was put together here, so f is
// there. It reports false for headers that no first fragment has room for.
func (f *Flows) cut(p *packet.Pieces, b []byte, ip *packet.IP, mtu int) bool {
	if ip.Version == 6 {
		return p.FragmentsV6(b, ip, mtu, f.ids.Add(1))
	}
	p.Fragments(b, ip, mtu)
	return true
}
