package nodehelper

import (
	"slices"
	"time"

	"strait.dev/strait/node"
)

const (
	refusalsInterval = 10 * time.Second // minimum interval at which the kernel's counters are read
	refusedLately    = time.Hour        // how long a refusal stays in the status, so that it changes rarely
)

// refusals stores when packets from gateways were refused. The zero value is ready for use.
type refusals struct {
	counted map[node.Refused]uint64 // nil: not read yet; what was refused before does not count
	last    map[node.Refused]time.Time
	next    time.Time // of the next reading, not before
}

func (r *refusals) update(counted map[node.Refused]uint64, now time.Time) {
	if r.last == nil {
		r.last = map[node.Refused]time.Time{}
	}
	for of, packets := range counted {
		if r.counted != nil && packets > r.counted[of] {
			r.last[of] = now
		}
	}
	r.counted = counted
}

// reasons returns the reasons for which packets from a link were refused lately, sorted.
func (r *refusals) reasons(link string, now time.Time) (all []string) {
	for of, last := range r.last {
		switch {
		case now.Sub(last) > refusedLately:
			delete(r.last, of)
		case of.Link == link:
			all = append(all, of.Reason)
		}
	}
	slices.Sort(all)
	return all
}

// refused sets the reasons of each gateway, and stores the names of gateways by link for metrics.
func (h *helper) refused(gateways []gateway) {
	now := time.Now()
	if !now.Before(h.refusals.next) {
		h.refusals.next = now.Add(refusalsInterval)
		if counted, err := h.Kernel.Refused(); err != nil {
			h.Log.Warn("cannot read which packets from gateways were refused; trying again", "error", err)
		} else {
			h.refusals.update(counted, now)
		}
	}
	names := map[string]string{}
	for i := range gateways {
		g := &gateways[i]
		if g.problem == "" {
			names[g.Link()] = g.Name
			g.refused = h.refusals.reasons(g.Link(), now)
		}
	}
	h.state.links.Store(&names)
}
