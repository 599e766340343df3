package measure

import (
	"testing"
	"time"
)

// virtual is a clock that advances only by sleeping and sending.
type virtual struct{ now time.Duration }

func (v *virtual) Now() time.Duration         { return v.now }
func (v *virtual) SleepUntil(t time.Duration) { v.now = max(v.now, t) }

func TestASenderKeepsItsRate(t *testing.T) {
	t.Parallel()
	const price = time.Microsecond // of sending one packet: at most 1 Mpps
	for _, c := range []struct {
		rate                float64
		wanted, least, most int
	}{
		{1, 10, 10, 10},
		{1000, 10_000, 10_000, 10_000},
		{123_456, 1_234_560, 1_234_560, 1_234_560},
		{2e6, 20_000_000, 10_199_900, 10_200_064}, // too fast, sent with a fiftieth of overtime
	} {
		clock := &virtual{now: time.Second}
		start := clock.now
		p := Pace{Rate: c.rate, Start: start}
		var early int
		total := 0
		wanted, sent := Offer(clock, p, start+10*time.Second, func(n int) int {
			total += n
			if total > p.Due(clock.now) {
				early++
			}
			clock.now += time.Duration(n) * price
			return n
		})
		if wanted != c.wanted || sent < c.least || sent > c.most || early > 0 {
			t.Errorf("%v/s for 10 s: wanted %d, sent %d, %d bursts too early", c.rate, wanted, sent, early)
		}
		if took := clock.now - start; took < 9*time.Second || took > 10*time.Second*51/50+burst*price {
			t.Errorf("%v/s: took %v", c.rate, took)
		}
	}
}

func TestRejectedPacketsAreNotSent(t *testing.T) {
	t.Parallel()
	clock := &virtual{}
	wanted, sent := Offer(clock, Pace{Rate: 1000}, time.Second, func(n int) int { return n - 1 })
	if wanted != 1000 || sent >= wanted {
		t.Errorf("wanted %d, sent %d", wanted, sent)
	}
}
