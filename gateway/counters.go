package gateway

import "sync/atomic"

// Counters of one journey. One goroutine writes, any may read. A journey with
// several lanes has several Counters: add them up.
type Counters struct {
	packets, bytes atomic.Uint64
	answers        atomic.Uint64
	suppressed     atomic.Uint64
	drops          [reasonsEnd]atomic.Uint64
}

// Forwarded gives the packets and bytes (of IP packets as they left, so pieces
// count each) that a journey sent on its way, to the host stack included.
func (c *Counters) Forwarded() (packets, bytes uint64) { return c.packets.Load(), c.bytes.Load() }

// Dropped gives the packets dropped for a reason.
func (c *Counters) Dropped(r Reason) uint64 { return c.drops[r].Load() }

// Answers gives the ICMP errors sent, and those not sent because of the rate limit.
func (c *Counters) Answers() (sent, suppressed uint64) { return c.answers.Load(), c.suppressed.Load() }

// CountForwarded adds a batch. The callers of journeys count what they send,
// once a batch, since they know about pieces.
func (c *Counters) CountForwarded(packets, bytes uint64) {
	c.packets.Add(packets)
	c.bytes.Add(bytes)
}

// CountDropped adds packets that a caller could not send on.
func (c *Counters) CountDropped(r Reason, packets uint64) { c.drops[r].Add(packets) }

// Reasons calls yield for every reason there is.
func Reasons(yield func(Reason) bool) {
	for r := UnknownSource; r < reasonsEnd; r++ {
		if !yield(r) {
			return
		}
	}
}
