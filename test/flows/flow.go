package flows

import (
	"sync"
	"time"
)

// Flow is a series of numbered messages in one direction. Safe for concurrent use.
type Flow struct {
	ID    int    // index in Set.Flows
	Class string // protocol and IP family: udp4, udp6, tcp4, tcp6
	From  string // name of the end that sends

	mu       sync.Mutex
	sent     [remembered]time.Duration // when each message was sent, by number modulo remembered
	next     uint64                    // number of the next message
	expected uint64                    // number after the highest one that was delivered
	first    uint64                    // first number of the current measurement
	arrived  uint64                    // messages of the measurement that were delivered
	longest  time.Duration             // outage of the measurement
	ended    int                       // connections that ended in the measurement
}

// remembered is the number of messages whose sending times are kept. A longer outage is
// measured as short as the messages that are kept.
const remembered = 1 << 13

// TCP reports whether the flow is one direction of a TCP connection. The other direction is
// the flow whose ID differs in the lowest bit.
func (f *Flow) TCP() bool { return f.Class == "tcp4" || f.Class == "tcp6" }

// send records that the next message is sent, and returns its number.
func (f *Flow) send(now time.Duration) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.next
	f.sent[n%remembered] = now
	f.next++
	return n
}

// deliver records that message n was delivered.
func (f *Flow) deliver(n uint64, now time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n >= f.next {
		return // not sent by this flow
	}
	if n >= f.first {
		f.arrived++
	}
	if n >= f.expected {
		f.longest = max(f.longest, f.open(now))
		f.expected = n + 1
	}
}

// open returns how long ago the first message was sent that is neither delivered nor older
// than a delivered one; 0 if there is none. f.mu must be held.
func (f *Flow) open(now time.Duration) time.Duration {
	if f.expected == f.next {
		return 0
	}
	oldest := f.expected
	if f.next > remembered {
		oldest = max(oldest, f.next-remembered)
	}
	return now - f.sent[oldest%remembered]
}

// end records that the flow's connection has ended.
func (f *Flow) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended++
}

// begin starts a measurement.
func (f *Flow) begin() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.first, f.arrived, f.longest, f.ended = f.next, 0, 0, 0
}

// Outcome is the result of a measurement.
type Outcome struct {
	// Outage is the longest time from sending a message that was not delivered before the
	// end of that time, to the next delivery. Without an outage it is the longest latency.
	Outage time.Duration
	// Lost is the number of messages that were not delivered, but later ones were.
	Lost uint64
	// Ended is the number of TCP connections that ended. They are opened again.
	Ended int
}

func (f *Flow) outcome(now time.Duration) Outcome {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := Outcome{Outage: max(f.longest, f.open(now)), Ended: f.ended}
	if f.expected > f.first {
		o.Lost = f.expected - f.first - min(f.arrived, f.expected-f.first)
	}
	return o
}

// delivered reports whether message n or a later one was delivered.
func (f *Flow) delivered(n uint64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.expected > n
}

// down reports whether the flow has waited longer than a time for a delivery, or has never
// had one.
func (f *Flow) down(now, limit time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.expected == 0 || f.open(now) > limit
}
