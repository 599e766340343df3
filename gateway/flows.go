package gateway

import (
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// Flows is the state that masquerading needs and a Table is too short-lived for: the
// flows, and fragments that wait for the rest of their datagrams, since ports are in the
// first alone. It belongs to one Gateway.
//
// Packets from nodes take turns: whoever reads the overlay is the only one that creates
// flows. Packets from tunnels come by as many goroutines as there are links; they share
// a lock with nobody, but for fragments among themselves.
type Flows struct {
	*nat.Masquerade
	flows, perSource int

	fromNodes, fromTunnel reassembler
	ids                   atomic.Uint32 // identification of datagrams that leave, RFC 6864 section 4.1
}

// FlowsConfig are the bounds of Flows.
type FlowsConfig struct {
	Flows, FlowsPerSource int
	// Random is where ports come from. Nobody outside may guess what it gives next.
	Random rand.Source
	Epoch  time.Time // now, or earlier
}

const (
	// fragmentBytes bounds the fragments that wait in one direction.
	fragmentBytes = 1 << 20
	// fragmentsPerSource bounds the datagrams that one source has waiting.
	fragmentsPerSource = 64
	// fragmentTimeout is how long fragments wait: as long as Linux lets them.
	fragmentTimeout = 30 * time.Second
)

// NewFlows allocates all the memory that flows will ever have.
func NewFlows(c FlowsConfig) *Flows {
	f := &Flows{flows: c.Flows, perSource: c.FlowsPerSource, Masquerade: nat.NewMasquerade(nat.MasqueradeConfig{
		Flows: c.Flows, FlowsPerSource: c.FlowsPerSource, Random: c.Random, Epoch: c.Epoch,
	})}
	f.fromNodes.reassembly = newReassembly(c.Random)
	f.fromTunnel.reassembly = newReassembly(c.Random)
	f.ids.Store(uint32(c.Random.Uint64()))
	return f
}

func newReassembly(random rand.Source) *packet.Reassembly {
	return packet.NewReassembly(packet.ReassemblyConfig{
		Bytes: fragmentBytes, PerSource: fragmentsPerSource, Timeout: fragmentTimeout, Seed: [2]uint64{random.Uint64(), random.Uint64()},
	})
}

// Expire ends what has timed out. It is called about once a second, beside everything else.
func (f *Flows) Expire(now time.Time) {
	f.Masquerade.Expire(now)
	f.fromNodes.expire(now)
	f.fromTunnel.expire(now)
}

// Has reports whether these are the bounds that the flows were made with.
func (f *Flows) Has(flows, perSource int) bool { return f.flows == flows && f.perSource == perSource }

// SetFlows gives the gateway the state for masquerading, or takes it away with nil. Flows
// of the state before have ended with it.
func (g *Gateway) SetFlows(f *Flows) { g.flows.Store(f) }

// Flows is the gateway's state of masquerading, nil when there is none.
func (g *Gateway) Flows() *Flows { return g.flows.Load() }

// masquerades says whether a source that is behind no node may leave all the same: it
// must be named, and be nobody else's. What the remote cluster is seen as, what it was
// granted here, and what is no host anywhere never is.
func (t *Table) masquerades(src netip.Addr) bool {
	if !t.masqueraded.Lookup(src) {
		return false
	}
	if _, ok := t.granted.Lookup(src); ok {
		return false
	}
	if _, ok := t.seen.Lookup(src); ok {
		return false
	}
	return t.external[packet.FamilyIndex(src)].IsValid() && !isMartian(src) && !isMulticast(src)
}

// FragmentBytes is the memory of fragments that wait, from nodes and from tunnels.
func (f *Flows) FragmentBytes() (egress, ingress int64) {
	return f.fromNodes.reassembly.Stats().Bytes, f.fromTunnel.reassembly.Stats().Bytes
}
