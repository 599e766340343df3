package gateway

import (
	"sync/atomic"
)

// Gateway is the state that the journeys of one gateway share: the current table, and what
// one direction learns for the other. All methods are safe for concurrent use.
type Gateway struct {
	table atomic.Pointer[Table]
	flows atomic.Pointer[Flows]
	tap   atomic.Pointer[Tap]
	hints segmentHints
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
