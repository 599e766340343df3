package link

import (
	"sync"
	"time"
)

// CrossingTime is how long an initiation of the peer waits for the answer to one of this end. It is
// longer than a round trip takes on nearly all paths.
const CrossingTime = time.Second

// Crossing decides about initiations of WireGuard that cross: both ends send one before that of the
// other arrives. WireGuard keeps one handshake per peer, so that each end would answer the other's and
// forget its own, and both responses would be useless. Of the two, one prevails: its end lets the peer's
// wait until its own has a response. The zero value is the end that does not prevail. Safe for concurrent
// use.
type Crossing struct {
	Prevails bool // constant, and true at one of the two ends

	mu       sync.Mutex
	sent     time.Time // the last initiation of this end
	answered time.Time // the last response to one
}

// Sent notes that this end sends an initiation.
func (c *Crossing) Sent(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = now
}

// Answered notes that a response of the peer arrives.
func (c *Crossing) Answered(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answered = now
}

// Wait returns how long an initiation of the peer, which arrives now, is to wait: then Obsolete says
// whether it is still to be processed. 0 = it is not to wait.
func (c *Crossing) Wait(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.Prevails || c.sent.IsZero() || !c.answered.Before(c.sent) {
		return 0
	}
	return max(CrossingTime-now.Sub(c.sent), 0)
}

// Obsolete reports whether an initiation of the peer that arrived at a time needs no answer: one of
// this end has been answered since.
func (c *Crossing) Obsolete(arrived time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered.After(arrived)
}
