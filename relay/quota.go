package relay

import (
	"net/netip"
	"sync"
)

// usage counts open connections or sessions against a Quota. What is served is a mapped or proxied address with port 0, or
// the listening port of a forward. Safe for concurrent use.
type usage struct {
	quota Quota

	mu      sync.Mutex
	all     int
	served  map[netip.AddrPort]int
	callers map[netip.Addr]int
}

func newUsage(q Quota) *usage {
	return &usage{quota: q, served: make(map[netip.AddrPort]int), callers: make(map[netip.Addr]int)}
}

// take counts one more, or returns the limit that is reached.
func (r *usage) take(served netip.AddrPort, caller netip.Addr) (Refusal, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.all >= r.quota.All:
		return TooMany, false
	case r.served[served] >= r.quota.PerMapping:
		return TooManyOfMapping, false
	case r.callers[caller] >= r.quota.PerCaller:
		return TooManyOfCaller, false
	}
	r.all++
	r.served[served]++
	r.callers[caller]++
	return 0, true
}

// give reverses take.
func (r *usage) give(served netip.AddrPort, caller netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	if r.served[served]--; r.served[served] == 0 {
		delete(r.served, served)
	}
	if r.callers[caller]--; r.callers[caller] == 0 {
		delete(r.callers, caller)
	}
}

func (r *usage) taken() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.all
}
