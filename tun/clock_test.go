package tun

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"strait.dev/strait/link"
)

// probing is one end of a link whose far end runs all the time, a millisecond away.
type probing struct {
	clock *clock
	link.Prober
	theirs uint64 // sequence of the last probe of the far end
}

// run has ticks for a time. The far end has each at the same time.
//
//strait:virtualtime
func (p *probing) run(d time.Duration) {
	for ; d > 0; d -= link.Interval {
		now := p.clock.now()
		sent := p.Tick(p.theirs > 0, 0, 1420, false, now)
		time.Sleep(time.Millisecond)
		p.arrive(sent.Sequence)
		time.Sleep(link.Interval - time.Millisecond)
	}
}

// arrive receives a probe.
func (p *probing) arrive(arrived uint64) {
	p.theirs++
	p.Take(link.Probe{Kind: link.Hello, Sequence: p.theirs, Arrived: arrived}, p.clock.now())
}

func TestF4_AProcessThatStoodStillDecidesNothingFromStaleState(t *testing.T) {
	t.Parallel()
	for _, gap := range []time.Duration{clockGap + time.Millisecond, 5 * time.Second, clockPause - time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			p := probing{clock: newClock(slog.New(slog.DiscardHandler))}
			p.run(3 * link.Interval)
			since := p.UpSince
			sent := p.Tick(true, 0, 1420, false, p.clock.now()) // has not arrived when the process stops
			time.Sleep(gap)
			now := p.clock.now() // whichever decision comes first
			if p.Fit(now) != link.Up || !p.UpSince.Equal(since) {
				t.Errorf("after a gap of %v: %v since %v, want up since %v", gap, p.Fit(now), p.UpSince, since)
			}
			if p.arrive(sent.Sequence); p.RTT >= link.Interval {
				t.Errorf("the probe that waited for %v: a round trip of %v", gap, p.RTT)
			}
			if got := (Gaps{p.clock.gaps.Count, p.clock.gaps.Longest}); got != (Gaps{1, gap}) {
				t.Errorf("gaps: %+v, want one of %v", got, gap)
			}
			if p.run(3 * link.Interval); !p.UpSince.Equal(since) {
				t.Error("down after the gap")
			}
		})
	}
}

// After a long gap nothing that was known before counts: links are down until probes cross.
func TestF4_AProcessThatStoodStillForLongTrustsNoLink(t *testing.T) {
	t.Parallel()
	for _, gap := range []time.Duration{clockPause, 30 * time.Second, 2 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			p := probing{clock: newClock(slog.New(slog.DiscardHandler))}
			p.run(3 * link.Interval)
			old := p.Sent
			time.Sleep(gap)
			p.arrive(old) // waited in the socket
			for range 3 {
				if p.Fit(p.clock.now()) != link.Down {
					t.Fatalf("up after a gap of %v without a probe", gap)
				}
				p.Tick(true, 0, 1420, false, p.clock.now())
			}
			if p.run(link.Interval); p.Fit(p.clock.now()) != link.Up {
				t.Errorf("not up after a gap of %v, though a probe has crossed", gap)
			}
		})
	}
}

// Time that the process ran through counts after a gap as it does before one.
func TestF4_ALinkThatDoesNotAnswerAfterAGapGoesDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := probing{clock: newClock(slog.New(slog.DiscardHandler))}
		p.run(link.Interval)
		time.Sleep(5 * time.Second)
		for range link.Misses {
			p.Tick(false, 0, 1420, false, p.clock.now())
			time.Sleep(link.Interval)
		}
		if p.Fit(p.clock.now()) != link.Down {
			t.Error("up without a probe after the gap")
		}
	})
}

// A packet that arrived before a gap is as old after it as it was: an end that did not run has no silence to state.
func TestF4_APacketIsNoOlderAfterAGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClock(slog.New(slog.DiscardHandler))
		const age = 10 * time.Millisecond
		for _, gap := range []time.Duration{clockGap + time.Millisecond, 5 * time.Second} {
			before := time.Now()
			time.Sleep(age)
			stood := c.now()
			time.Sleep(gap)
			within := time.Now() // after the gap, and before the clock is read
			time.Sleep(time.Millisecond)
			now := c.now()
			if d := now.Sub(c.converted(before)); d != age {
				t.Errorf("after a gap of %v: a packet from before it is %v old, want %v", gap, d, age)
			}
			if got := c.converted(within); got.Before(stood) || got.After(now) {
				t.Errorf("after a gap of %v: a packet from its end is %v old", gap, now.Sub(got))
			}
			time.Sleep(age)
			after := time.Now()
			time.Sleep(age)
			if d := c.now().Sub(c.converted(after)); d != age {
				t.Errorf("after a gap of %v: a packet from after it is %v old, want %v", gap, d, age)
			}
		}
	})
}

// A gap that counts as time makes packets older.
func TestF4_APacketIsOlderAfterALongGap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClock(slog.New(slog.DiscardHandler))
		before := time.Now()
		time.Sleep(clockPause)
		if d := c.now().Sub(c.converted(before)); d != clockPause {
			t.Errorf("%v old, want %v", d, clockPause)
		}
	})
}

func TestTheClockOfARunningProcessIsTheSystems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClock(slog.New(slog.DiscardHandler))
		for range 100 {
			time.Sleep(clockGap)
			if got, want := c.now(), time.Now(); !got.Equal(want) {
				t.Fatalf("%v, want %v", got, want)
			}
		}
		if c.gaps != (Gaps{}) {
			t.Errorf("%+v without a gap", c.gaps)
		}
	})
}
