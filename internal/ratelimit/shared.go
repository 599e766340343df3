package ratelimit

import (
	"sync/atomic"
	"time"
)

// Shared is a Bucket that is safe for concurrent use. Its times are wall-clock times: when
// the clock is set back by much more than a bucket needs to fill, the bucket is full again.
type Shared struct {
	full atomic.Int64 // when the bucket is full again, nanoseconds since 1970
}

// Take takes a token. It reports false, and takes none, when the bucket is empty.
func (b *Shared) Take(now time.Time, interval time.Duration, burst int) bool {
	at := now.UnixNano()
	for {
		full := b.full.Load()
		next := max(full, at)
		if missing := time.Duration(next - at); missing > 2*time.Duration(burst)*interval {
			next = at // a bucket misses its burst at most, and concurrent callers differ by little
		} else if missing > time.Duration(burst-1)*interval {
			return false
		}
		if b.full.CompareAndSwap(full, next+int64(interval)) {
			return true
		}
	}
}
