package gateway

import (
	"net/netip"
	"time"

	"strait.dev/strait/internal/ratelimit"
	"strait.dev/strait/packet"
)

// Rate limits of ICMP errors, which a router must have (RFC 1812 section 4.3.2.8, RFC 4443
// section 2.4 f). Both limits must allow an error.
const (
	errorInterval       = time.Second / 1000 // to one node, or into the tunnel
	errorBurst          = 50
	sourceErrorInterval = time.Second / 50 // about the packets of one source
	sourceErrorBurst    = 20               // enough for a traceroute with three probes a hop
	limiterSources      = 256
)

// limiter has a token bucket for each of a few hundred groups of sources, so that one source
// cannot suppress the errors that others need for path MTU discovery. Not for concurrent use.
type limiter struct {
	sources [limiterSources]ratelimit.Bucket
}

// allow reports whether an error about a packet from src may be sent at now. all limits the
// errors that go where this one goes.
func (l *limiter) allow(all *ratelimit.Shared, src netip.Addr, now time.Time) bool {
	s := &l.sources[packet.SumAddr(src)%limiterSources]
	if !s.Has(now, sourceErrorInterval, sourceErrorBurst) || !all.Take(now, errorInterval, errorBurst) {
		return false
	}
	return s.Take(now, sourceErrorInterval, sourceErrorBurst)
}
