package gateway

import (
	"sync/atomic"

	"strait.dev/strait/nodeprobe"
)

// Gateway is the state that the journeys of one gateway share: the current table, and what
// one direction learns for the other. All methods are safe for concurrent use.
type Gateway struct {
	table atomic.Pointer[Table]
	flows atomic.Pointer[Flows]
	tap   atomic.Pointer[Tap]
	state atomic.Uint32 // a nodeprobe.State
	hints segmentHints

	traced bool                   // for one Trace: the budgets of nodes are left alone
	owners atomic.Pointer[Owners] // nil: none
}

// New returns a gateway with the table t, which must not be nil.
func New(t *Table) *Gateway {
	g := new(Gateway)
	g.table.Store(t)
	return g
}

// Table returns the current table.
func (g *Gateway) Table() *Table { return g.table.Load() }

// SetTable replaces the table without blocking. Later packets use t.
func (g *Gateway) SetTable(t *Table) { g.table.Store(t) }

// State returns the state that nodes are told when they probe the gateway.
func (g *Gateway) State() nodeprobe.State { return nodeprobe.State(g.state.Load()) }

// SetState sets the state that nodes are told from now on. Until the first call it is unknown.
func (g *Gateway) SetState(s nodeprobe.State) { g.state.Store(uint32(s)) }

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
