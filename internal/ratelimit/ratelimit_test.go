package ratelimit

import (
	"testing"
	"time"
)

func TestABucketThatIsOverspentIsEmptyForLonger(t *testing.T) {
	t.Parallel()
	const interval, burst = 20 * time.Millisecond, 5
	var b Bucket
	now := time.Unix(1000, 0)
	if wait := b.Wait(now, interval, burst); wait != 0 || !b.Full(now) {
		t.Errorf("an unused bucket is empty for %v", wait)
	}
	b.Spend(now, interval, burst-1)
	if wait := b.Wait(now, interval, burst); wait != 0 || b.Full(now) {
		t.Errorf("with one token left it is empty for %v", wait)
	}
	b.Spend(now, interval, 11)
	if wait := b.Wait(now, interval, burst); wait != 11*interval || b.Has(now.Add(wait-1), interval, burst) || !b.Has(now.Add(wait), interval, burst) {
		t.Errorf("10 tokens short, it is empty for %v", wait)
	}
	if now = now.Add(15 * interval); !b.Full(now) || b.Full(now.Add(-1)) {
		t.Error("it is not full when all tokens are back")
	}
}

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
