package gateway

import (
	"sync"
	"time"

	"strait.dev/strait/packet"
)

// reassembler reassembles the fragments of one direction. Only fragments take its lock.
type reassembler struct {
	mu         sync.Mutex
	reassembly *packet.Reassembly
	counted    packet.ReassemblyStats // losses counted so far
}

// add adds a fragment to its datagram. When the datagram is complete, add copies it to memory, which
// it allocates for the first one, returns it with the length of its longest fragment, and fills ip
// from it. Until then whole is nil, and reason is NoReason if the fragment waits.
func (g *reassembler) add(c *Counters, memory *[]byte, b []byte, ip *packet.IP, now time.Time) (whole []byte, longest int, reason Reason) {
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
	if *memory == nil {
		*memory = make([]byte, packet.MaxLen)
	}
	return (*memory)[:copy(*memory, b)], longest, NoReason
}

// expire removes datagrams that have waited too long; the next fragment counts them.
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

// cut fragments a packet larger than mtu. An IPv6 packet larger than mtu was reassembled here,
// so f is not nil. It reports false if the headers do not fit a first fragment.
func (f *Flows) cut(p *packet.Pieces, b []byte, ip *packet.IP, mtu int) bool {
	if ip.Version == 6 {
		return p.FragmentsV6(b, ip, mtu, f.ids.Add(1))
	}
	p.Fragments(b, ip, mtu)
	return true
}
