package traffic

import (
	"net/netip"
	"sync/atomic"
	"time"

	"strait.dev/strait/bench/measure"
	"strait.dev/strait/underlay"
)

// Path is the entry to a path. Only one goroutine may use it.
type Path struct {
	From *underlay.Socket
	To   netip.AddrPort
	// FixChecksum corrects a datagram, for instance its checksum, after its mark has
	// changed. nil = not needed.
	FixChecksum func(datagram []byte)
	// Quiet is how long to wait for missing datagrams; 0: 20 ms.
	Quiet time.Duration

	// clock paces the trials; nil = a clock that starts with each of them.
	clock measure.Pacer
}

// trials numbers the trials of the process, so that their datagrams are not confused.
var trials atomic.Uint32

// patient is the limit of the wait for the last datagrams, in multiples of Quiet.
const patient = 15

func (p *Path) quiet() time.Duration {
	if p.Quiet == 0 {
		return 20 * time.Millisecond
	}
	return p.Quiet
}

// Trial offers datagrams, in turn, at a rate for a time, and counts what arrives. The
// caller must not use datagrams until it returns.
func (p *Path) Trial(datagrams [][]byte, rate float64, d time.Duration, c *Counter) measure.Trial {
	m := Mark{Trial: trials.Add(1)}
	for _, b := range datagrams {
		p.put(m, b)
	}
	c.begin(m.Trial)

	batch := underlay.NewBatch(underlay.ReceiveBatch)
	to := underlay.NewDestination(p.To)
	next := 0
	clock := p.clock
	if clock == nil {
		clock = measure.NewClock()
	}
	t := measure.Trial{Rate: rate}
	t.Wanted, t.Sent = measure.Offer(clock, measure.Pace{Rate: rate}, d, func(n int) int {
		for range n {
			batch.Add(p.From, &to, nil, datagrams[next])
			next = (next + 1) % len(datagrams)
		}
		sent, _ := batch.Flush()
		return sent
	})
	t.Received = Settle(clock, func() int { return int(c.packets.Load()) }, t.Sent, p.quiet())
	return t
}

func (p *Path) put(m Mark, datagram []byte) {
	m.Put(datagram)
	if p.FixChecksum != nil {
		p.FixChecksum(datagram)
	}
}

// Settle waits until count has reached all, or has not changed for quiet, but not for long, and
// returns it.
func Settle(clock measure.Pacer, count func() int, all int, quiet time.Duration) (counted int) {
	begin := clock.Now()
	last, since := 0, begin
	for {
		now := clock.Now()
		counted = count()
		if counted != last {
			last, since = counted, now
		}
		if counted >= all || now-since > quiet || now-begin > patient*quiet {
			return counted
		}
		clock.SleepUntil(now + time.Millisecond)
	}
}
