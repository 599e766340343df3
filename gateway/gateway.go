package gateway

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"strait.dev/strait/nodeprobe"
)

// Gateway is the state that the journeys of one gateway share: the current table, and what
// one direction learns for the other. All methods are safe for concurrent use.
type Gateway struct {
	table atomic.Pointer[Table]
	flows atomic.Pointer[Flows]
	tap   atomic.Pointer[Tap]
	told  atomic.Pointer[told]
	hints segmentHints

	fragmentIDs atomic.Uint32 // of IPv6 packets that a small tunnel fragments

	traced bool                   // for one Trace: the budgets of nodes are left alone
	owners atomic.Pointer[owners] // nil: none
}

// told is the state that nodes are told.
type told struct {
	state nodeprobe.State
	until time.Time
}

// New returns a gateway with the table t, which must not be nil. The output of random, which
// New reads and does not keep, must be unpredictable.
func New(t *Table, random rand.Source) *Gateway {
	g := new(Gateway)
	for i := range g.hints.key {
		g.hints.key[i] = random.Uint64()
	}
	g.fragmentIDs.Store(uint32(random.Uint64()))
	g.table.Store(t)
	return g
}

// Table returns the current table.
func (g *Gateway) Table() *Table { return g.table.Load() }

// SetTable replaces the table without blocking. Later packets use t.
func (g *Gateway) SetTable(t *Table) { g.table.Store(t) }

// State returns the state that nodes are told when they probe the gateway.
func (g *Gateway) State(now time.Time) nodeprobe.State {
	t := g.told.Load()
	switch {
	case t == nil:
		return nodeprobe.Unknown
	case t.state == nodeprobe.LinksUp && now.After(t.until):
		return nodeprobe.NoLinks
	}
	return t.state
}

// SetState sets the state that nodes are told from now on. Until the first call it is unknown. That links are
// up holds until a time, so that a process that was stopped does not say so when it continues. It
// reports whether the state is another one than before; Restate tells the nodes.
func (g *Gateway) SetState(s nodeprobe.State, until time.Time) (changed bool) {
	was := g.told.Swap(&told{s, until})
	return was == nil || was.state != s
}

// SetTap installs a tap, or removes it with nil.
func (g *Gateway) SetTap(t Tap) {
	if t == nil {
		g.tap.Store(nil)
		return
	}
	g.tap.Store(&t)
}

func (g *Gateway) see(s Stage, ip []byte) {
	if t := g.tap.Load(); t != nil {
		(*t)(s, ip)
	}
}
