package ratelimit

import (
	"sync/atomic"
	"time"
)

// Shared is a Bucket that is safe for concurrent use. Its times are wall-clock times. When the
// clock is set back, a full bucket refuses tokens for skew at most.
type Shared struct {
	full atomic.Int64 // when the bucket is full again, nanoseconds since 1970
}

// skew is the largest expected difference between the times of concurrent callers.
const skew = 100 * time.Millisecond

// Take takes a token. It reports false, and takes none, when the bucket is empty.
func (b *Shared) Take(now time.Time, interval time.Duration, burst int) bool {
	at := now.UnixNano()
	for {
		full := b.full.Load()
		next := max(full, at)
		if missing := time.Duration(next - at); missing > time.Duration(burst)*interval+skew {
			next = at // no bucket misses more than its burst: the clock was set back
		} else if missing > time.Duration(burst-1)*interval {
			return false
		}
		if b.full.CompareAndSwap(full, next+int64(interval)) {
			return true
		}
	}
}
