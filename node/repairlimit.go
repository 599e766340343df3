//go:build linux

package node

import "time"

// repairLimiter limits the rate of repairs when another program undoes them again and again, so
// that the two do not change the kernel in a tight loop.
//
// The first repairBurst repairs are done at once. After that, one more is allowed per
// repairInterval.
// is allowed for each repairInterval that passes.
type repairLimiter struct {
	left  int // repairs that may be done at once
	since time.Time
}

const (
	repairBurst    = 5
	repairInterval = 5 * time.Second
)

// refill adds the repairs that have become allowed by now.
func (f *repairLimiter) refill(now time.Time) {
	if f.since.IsZero() {
		f.left, f.since = repairBurst, now
	}
	passed := int(now.Sub(f.since) / repairInterval)
	f.left = min(repairBurst, f.left+passed)
	f.since = f.since.Add(time.Duration(passed) * repairInterval)
	if f.left == repairBurst {
		f.since = now
	}
}

// wait returns how long the next repair must wait.
func (f *repairLimiter) wait(now time.Time) time.Duration {
	f.refill(now)
	if f.left > 0 {
		return 0
	}
	return f.since.Add(repairInterval).Sub(now)
}

// repaired counts a repair and reports whether it was the last one that is done at once.
func (f *repairLimiter) repaired(now time.Time) bool {
	f.refill(now)
	f.left = max(0, f.left-1)
	return f.left == 0
}
