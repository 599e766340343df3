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

// Take takes a token. It reports false, and takes none, when the bucket is empty.
func (b *Bucket) Take(now time.Time, interval time.Duration, burst int) bool {
	if !b.Has(now, interval, burst) {
		return false
	}
	if b.full.Before(now) {
		b.full = now
	}
	b.full = b.full.Add(interval)
	return true
}
