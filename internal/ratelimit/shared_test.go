package ratelimit

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestASharedBucketAllowsABurstThenOneEventPerInterval(t *testing.T) {
	t.Parallel()
	const interval, burst = 20 * time.Millisecond, 5
	var b Shared
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, burst}, {interval - 1, 0}, {1, 1}, {3 * interval, 3}, {time.Hour, burst}, {-time.Hour, burst}} {
		now = now.Add(c.after)
		got := 0
		for range 2 * burst {
			if b.Take(now, interval, burst) {
				got++
			}
		}
		if got != c.want {
			t.Errorf("%v after the step before: %d events, want %d", c.after, got, c.want)
		}
	}
}

func TestConcurrentTakersOfASharedBucketGetItsBurstTogether(t *testing.T) {
	t.Parallel()
	var b Shared
	var taken atomic.Int64
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				if b.Take(time.Unix(1000, 0), time.Second, 50) {
					taken.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := taken.Load(); n != 50 {
		t.Errorf("%d events, want 50", n)
	}
}

// The clock is set back by a second or so, which is as much as the bucket needs to fill.
func TestAClockThatIsSetBackStopsASharedBucketForAMoment(t *testing.T) {
	t.Parallel()
	const interval, burst = 50 * time.Millisecond, 20
	for back := time.Duration(0); back < 3*time.Second; back += time.Millisecond {
		var b Shared
		now := time.Unix(1000, 0)
		for range 40 { // it is used all the time, and full
			now = now.Add(250 * time.Millisecond)
			b.Take(now, interval, burst)
		}
		now = now.Add(-back)
		if !b.Take(now, interval, burst) && !b.Take(now.Add(skew+2*interval), interval, burst) {
			t.Fatalf("set back by %v: refused for longer than %v", back, skew+2*interval)
		}
	}
}
