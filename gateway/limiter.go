package gateway

import (
	"net/netip"
	"time"

	"strait.dev/strait/packet"
)

// Limits on ICMP errors, which a gateway must have (RFC 1812 section 4.3.2.8,
// RFC 4443 section 2.4 f). Both of a journey's limits must allow an error.
const (
	errorsPerSecond       = 1000 // in all
	errorBurst            = 50
	sourceErrorsPerSecond = 50 // about the packets of one source
	sourceErrorBurst      = 20 // enough for a traceroute with three probes a hop
	limiterSources        = 256
)

// limiter is a token bucket for all errors and one for each of a few hundred
// groups of sources, so that one noisy source does not silence the errors that
// the others need for path MTU discovery. Not for concurrent use.
type limiter struct {
	all     bucket
	sources [limiterSources]bucket
}

// bucket counts in time instead of tokens: full is the moment when the bucket
// will be full again (the generic cell rate algorithm). The zero value is full.
type bucket struct{ full time.Time }

// allow reports whether an error about a packet from src may be sent at now.
func (l *limiter) allow(src netip.Addr, now time.Time) bool {
	s := &l.sources[packet.SumAddr(src)%limiterSources]
	if !s.has(now, sourceErrorsPerSecond, sourceErrorBurst) || !l.all.has(now, errorsPerSecond, errorBurst) {
		return false
	}
	s.take(now, sourceErrorsPerSecond)
	l.all.take(now, errorsPerSecond)
	return true
}

func (b *bucket) has(now time.Time, rate, burst time.Duration) bool {
	return b.full.Sub(now) <= (burst-1)*time.Second/rate
}

func (b *bucket) take(now time.Time, rate time.Duration) {
	if b.full.Before(now) {
		b.full = now
	}
	b.full = b.full.Add(time.Second / rate)
}
