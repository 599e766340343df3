package gateway

import "sync/atomic"

// Counters are the counters of one journey. Safe for concurrent use. A
// journey on several links has several Counters; their sum counts.
type Counters struct {
	packets, bytes atomic.Uint64
	answers        atomic.Uint64
	suppressed     atomic.Uint64
	probes         atomic.Uint64
	drops          [reasonsEnd]atomic.Uint64
}

// Forwarded returns the packets and bytes that a journey forwarded, to the host stack
// included. They are counted as sent: each piece of a packet counts.
func (c *Counters) Forwarded() (packets, bytes uint64) { return c.packets.Load(), c.bytes.Load() }

// Dropped returns the number of packets dropped for a reason.
func (c *Counters) Dropped(r Reason) uint64 { return c.drops[r].Load() }

// Answers returns the number of ICMP errors sent, and of those suppressed by the rate limit.
func (c *Counters) Answers() (sent, suppressed uint64) { return c.answers.Load(), c.suppressed.Load() }

// Probes returns the number of probes of nodes that were answered.
func (c *Counters) Probes() uint64 { return c.probes.Load() }

// CountForwarded adds a batch. The callers of journeys count what they send, once per batch,
// because only they know the number of pieces.
func (c *Counters) CountForwarded(packets, bytes uint64) {
	c.packets.Add(packets)
	c.bytes.Add(bytes)
}

// CountDropped adds packets that a caller could not send.
func (c *Counters) CountDropped(r Reason, packets uint64) { c.drops[r].Add(packets) }

// Reasons yields every drop reason.
func Reasons(yield func(Reason) bool) {
	for r := UnknownSource; r < reasonsEnd; r++ {
		if !yield(r) {
			return
		}
	}
}
