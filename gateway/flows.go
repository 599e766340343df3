package gateway

import (
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// Flows is the state for masquerading, which must outlive a Table: the flows, and fragments
// that wait for the rest of their datagrams, because only the first fragment has ports. It
// belongs to one Gateway.
//
// Packets of each direction are processed by one goroutine per link. They share a lock only to
// create flows, and for fragments: the fragments of a datagram may arrive at different links.
type Flows struct {
	*nat.Masquerade
	flows, perSource int

	fromNodes, fromTunnel reassembler
	ids                   atomic.Uint32 // identification of datagrams that leave, RFC 6864 section 4.1
}

// FlowsConfig configures Flows.
type FlowsConfig struct {
	Flows, FlowsPerSource int
	// Random chooses ports. Its output must be unpredictable.
	Random rand.Source
	Epoch  time.Time // now, or earlier
}

const (
	// fragmentBytes is the memory for waiting fragments per direction.
	fragmentBytes = 1 << 20
	// fragmentsPerSource limits the waiting datagrams of one source.
	fragmentsPerSource = 64
	// fragmentTimeout is how long fragments wait; the same as in Linux.
	fragmentTimeout = 30 * time.Second
)

// NewFlows allocates all the memory that the flows will use.
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

// Expire removes what has timed out. Call it about once a second; it may be called
// concurrently with all other methods.
func (f *Flows) Expire(now time.Time) {
	f.Masquerade.Expire(now)
	f.fromNodes.expire(now)
	f.fromTunnel.expire(now)
}

// Has reports whether the flows were created with these limits.
func (f *Flows) Has(flows, perSource int) bool { return f.flows == flows && f.perSource == perSource }

// SetFlows installs the state for masquerading, or removes it with nil. The flows of the
// previous state end.
func (g *Gateway) SetFlows(f *Flows) { g.flows.Store(f) }

// Flows returns the state for masquerading, nil if there is none.
func (g *Gateway) Flows() *Flows { return g.flows.Load() }

// masquerades reports whether a source behind no node is masqueraded: the configuration must
// list it, and it must not be an address of the remote cluster as seen here, a granted
// address, or an address that no host can have.
func (t *Table) masquerades(src netip.Addr) bool {
	if !t.masqueraded.Lookup(src) || t.grants(src) {
		return false
	}
	if _, ok := t.seen.Lookup(src); ok {
		return false
	}
	return t.external[packet.FamilyIndex(src)].IsValid() && !isMartian(src) && !isMulticast(src)
}

// FragmentBytes returns the memory of waiting fragments, from nodes and from tunnels.
func (f *Flows) FragmentBytes() (egress, ingress int64) {
	return f.fromNodes.reassembly.Stats().Bytes, f.fromTunnel.reassembly.Stats().Bytes
}
