package tun

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// probing is one end of a link whose far end answers in a millisecond while it runs.
type probing struct {
	clock *clock
	prober
}

// run sends probes for a time, with the clock read as often as in a gateway.
//
//strait:virtualtime
func (p *probing) run(d time.Duration) {
	for ; d > 0; d -= probeInterval {
		q := p.ask(1420, p.clock.now())
		time.Sleep(time.Millisecond)
		p.answer(probe{kind: probeAnswer, sequence: q.sequence}, p.clock.now())
		for slept := time.Millisecond; slept < probeInterval; slept += clockInterval {
			time.Sleep(min(clockInterval, probeInterval-slept))
			p.clock.now()
		}
	}
}

func TestF4_AProcessThatStoodStillDecidesNothingFromStaleState(t *testing.T) {
	t.Parallel()
	for _, gap := range []time.Duration{clockGap + time.Millisecond, 5 * time.Second, clockPause - time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			p := probing{clock: newClock(slog.New(slog.DiscardHandler))}
			p.run(3 * probeInterval)
			since := p.upSince
			q := p.ask(1420, p.clock.now()) // not answered when the process stops
			time.Sleep(gap)
			now := p.clock.now() // whichever decision comes first
			if p.expire(now); !p.up(now) || p.lost != 0 || !p.upSince.Equal(since) {
				t.Errorf("after a gap of %v: up %v since %v, %d lost; want up since %v, none lost", gap, p.up(now), p.upSince, p.lost, since)
			}
			if !p.answer(probe{kind: probeAnswer, sequence: q.sequence}, now) || p.rtt >= probeInterval {
				t.Errorf("the answer that waited for %v: a round trip of %v", gap, p.rtt)
			}
			if got := (Gaps{p.clock.gaps.Count, p.clock.gaps.Longest}); got != (Gaps{1, gap}) {
				t.Errorf("gaps: %+v, want one of %v", got, gap)
			}
			p.run(3 * probeInterval)
			if p.lost != 0 {
				t.Errorf("%d probes lost after the gap", p.lost)
			}
		})
	}
}

// After a long gap nothing that was known before counts: links are down until a probe is answered.
func TestF4_AProcessThatStoodStillForLongTrustsNoLink(t *testing.T) {
	t.Parallel()
	for _, gap := range []time.Duration{clockPause, 30 * time.Second, 2 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			p := probing{clock: newClock(slog.New(slog.DiscardHandler))}
			p.run(3 * probeInterval)
			time.Sleep(gap)
			p.received = p.clock.now() // a packet that waited in the socket
			for range probeMisses {
				if p.up(p.clock.now()) {
					t.Fatalf("up after a gap of %v without an answer", gap)
				}
				p.ask(1420, p.clock.now())
			}
			q := p.ask(1420, p.clock.now())
			time.Sleep(time.Millisecond)
			if now := p.clock.now(); !p.answer(probe{kind: probeAnswer, sequence: q.sequence}, now) || !p.up(now) {
				t.Errorf("not up with an answer after a gap of %v", gap)
			}
		})
	}
}

// Time that the process ran through counts after a gap as it does before one.
func TestF4_ALinkThatDoesNotAnswerAfterAGapGoesDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := probing{clock: newClock(slog.New(slog.DiscardHandler))}
		p.run(probeInterval)
		time.Sleep(5 * time.Second)
		for range probeMisses + 1 {
			p.ask(1420, p.clock.now())
			time.Sleep(probeInterval)
		}
		if p.up(p.clock.now()) {
			t.Error("up without an answer after the gap")
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

// A process that a cgroup keeps waiting has not received what arrived meanwhile. It decides that a link is down only after that.
func TestF19_ADecisionThatComesLateWaitsForWhatHasArrived(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		stands time.Duration   // how long the process does not run after the first decision
		again  time.Duration   // and after a tick at 100 ms; 0 = there is none
		event  time.Duration   // when something else asks for a decision; 0 = never
		want   []time.Duration // the decisions. Each wants the next one 50 ms later
	}{
		"in time":             {want: []time.Duration{0, 50 * ms, 100 * ms, 150 * ms}},
		"in time, asked for":  {event: 20 * ms, want: []time.Duration{0, 20 * ms, 70 * ms}},
		"a little late":       {stands: 50*ms + clockLate, want: []time.Duration{0, 50*ms + clockLate, 100*ms + clockLate}},
		"late":                {stands: 90 * ms, want: []time.Duration{0, 90*ms + clockRoom, 140*ms + clockRoom}},
		"late, and asked for": {stands: 90 * ms, event: 95 * ms, want: []time.Duration{0, 90*ms + clockRoom, 140*ms + clockRoom}},
		"late again":          {stands: 90 * ms, again: 100 * ms, want: []time.Duration{0, 200 * ms, 250 * ms}},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			begun := time.Now()
			changed := make(chan struct{})
			if c.event != 0 {
				time.AfterFunc(c.event, func() { changed <- struct{}{} })
			}
			var got []time.Duration
			ticks := 0
			newClock(slog.New(slog.DiscardHandler)).schedule(ctx, changed, func(time.Time) time.Duration {
				if ticks++; ticks == 1 && c.again != 0 {
					return 100 * ms
				}
				if ticks == 2 {
					time.Sleep(c.again)
				}
				return time.Hour
			}, func(now time.Time) time.Time {
				got = append(got, now.Sub(begun))
				if len(got) == 1 {
					time.Sleep(c.stands)
				}
				if len(got) == len(c.want) {
					cancel()
				}
				return now.Add(50 * ms)
			})
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: decisions after %v, want %v", name, got, c.want)
			}
		})
	}
}
