package relay

import (
	"net/netip"
	"sync"
)

// usage counts open connections or sessions against a Quota. Safe for concurrent use.
type usage struct {
	quota Quota

	mu       sync.Mutex
	all      int
	mappings map[*mapping]int
	callers  map[netip.Addr]int
}

func newUsage(q Quota) *usage {
	return &usage{quota: q, mappings: make(map[*mapping]int), callers: make(map[netip.Addr]int)}
}

// take counts one more, or returns the limit that is reached.
func (r *usage) take(m *mapping, caller netip.Addr) (Refusal, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.all >= r.quota.All:
		return TooMany, false
	case r.mappings[m] >= r.quota.PerMapping:
		return TooManyOfMapping, false
	case r.callers[caller] >= r.quota.PerCaller:
		return TooManyOfCaller, false
	}
	r.all++
	r.mappings[m]++
	r.callers[caller]++
	return 0, true
}

// give reverses take.
func (r *usage) give(m *mapping, caller netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	if r.mappings[m]--; r.mappings[m] == 0 {
		delete(r.mappings, m)
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
