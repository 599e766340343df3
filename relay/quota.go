package relay

import (
	"net/netip"
	"sync"
)

// usage counts what is open, so that no limit is exceeded. Safe for concurrent use.
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

// take makes room for one, or says which limit is reached.
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

// give ends what take began.
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
