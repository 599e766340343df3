package traffic

import (
	"net/netip"
	"sync/atomic"

	"strait.dev/strait/underlay"
)

// Counter counts the datagrams of a trial. Safe for concurrent use.
type Counter struct {
	trial    atomic.Uint32
	packets  atomic.Uint64
	listener *Listener
}

// NewCounter counts on s, which must stay open until Close.
func NewCounter(s *underlay.Socket) (*Counter, error) {
	c := new(Counter)
	var err error
	c.listener, err = Listen(s, c.take)
	return c, err
}

func (c *Counter) take(datagram []byte, _ netip.AddrPort) {
	if m, ok := MarkOf(datagram); ok && m.Trial == c.trial.Load() {
		c.packets.Add(1)
	}
}

func (c *Counter) begin(trial uint32) {
	c.trial.Store(trial)
	c.packets.Store(0)
}

// Close stops counting.
func (c *Counter) Close() { c.listener.Close() }
