// Package ratelimit is a token bucket without a clock: the caller passes the time.
package ratelimit

import "time"

// Bucket allows burst events at once and one more after each interval. It stores one
// time instead of a number of tokens: the generic cell rate algorithm (ITU-T I.371,
// Annex A). The zero value is full. Not for concurrent use; all calls on one Bucket
// pass the same interval and burst.
type Bucket struct {
	full time.Time // when the bucket is full again
}

// Has reports whether Take would succeed.
func (b *Bucket) Has(now time.Time, interval time.Duration, burst int) bool {
	return b.full.Sub(now) <= time.Duration(burst-1)*interval
}

// Wait returns how long it is until Has is true; 0: it is.
func (b *Bucket) Wait(now time.Time, interval time.Duration, burst int) time.Duration {
	if b.Has(now, interval, burst) {
		return 0
	}
	return b.full.Sub(now) - time.Duration(burst-1)*interval
}

// Spend takes n tokens, also those that the bucket does not have: then it stays empty for
// longer. It is for events whose size is known only when they have happened.
func (b *Bucket) Spend(now time.Time, interval time.Duration, n int) {
	if b.full.Before(now) {
		b.full = now
	}
	b.full = b.full.Add(time.Duration(n) * interval)
}

// Full reports whether the bucket has its whole burst, as an unused one has.
func (b *Bucket) Full(now time.Time) bool { return !b.full.After(now) }

// Take takes a token. It reports false, and takes none, when the bucket is empty.
func (b *Bucket) Take(now time.Time, interval time.Duration, burst int) bool {
	if !b.Has(now, interval, burst) {
		return false
	}
	b.Spend(now, interval, 1)
	return true
}
