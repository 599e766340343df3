package ratelimit

import (
	"testing"
	"time"
)

func TestABucketAllowsABurstThenOneEventPerInterval(t *testing.T) {
	t.Parallel()
	const interval, burst = 20 * time.Millisecond, 5
	var b Bucket
	now := time.Unix(1000, 0)
	take := func(offered int) (taken int) {
		for range offered {
			has := b.Has(now, interval, burst)
			if b.Take(now, interval, burst) != has {
				t.Fatalf("Take and Has disagree at %v", now)
			}
			if has {
				taken++
			}
		}
		return taken
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, burst}, {interval - 1, 0}, {1, 1}, {3 * interval, 3}, {time.Hour, burst}, {-time.Hour, 0}} {
		now = now.Add(c.after)
		if got := take(2 * burst); got != c.want {
			t.Errorf("%v after the step before: %d events, want %d", c.after, got, c.want)
		}
	}
}
