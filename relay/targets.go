package relay

import (
	"net/netip"
	"slices"
	"sync"
	"time"
)

// targets are the targets of a forward. Those to which it could not connect are avoided for some time, unless there are no
// others. Safe for concurrent use.
type targets struct {
	choose func(n int) int

	mu    sync.Mutex
	all   []netip.AddrPort
	aside map[netip.AddrPort]time.Time // until when a target is avoided
}

// set replaces the targets. What is known of those that stay is kept. It keeps all.
func (t *targets) set(all []netip.AddrPort) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = all
	for a := range t.aside {
		if !slices.Contains(all, a) {
			delete(t.aside, a)
		}
	}
}

// next returns a target that was not tried, and how many more there are. ok is false if all were.
func (t *targets) next(tried []netip.AddrPort, now time.Time) (a netip.AddrPort, more int, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for a, until := range t.aside {
		if !now.Before(until) {
			delete(t.aside, a)
		}
	}
	if len(t.all) > 0 && len(t.aside)+len(tried) == 0 {
		return t.all[t.choose(len(t.all))], len(t.all) - 1, true
	}
	var good, avoided []netip.AddrPort
	for _, a := range t.all {
		if slices.Contains(tried, a) {
			continue
		}
		if _, bad := t.aside[a]; bad {
			avoided = append(avoided, a)
		} else {
			good = append(good, a)
		}
	}
	more = len(good) + len(avoided) - 1
	if len(good) == 0 {
		good = avoided
	}
	if len(good) == 0 {
		return netip.AddrPort{}, 0, false
	}
	return good[t.choose(len(good))], more, true
}

// avoid avoids a target until a time.
func (t *targets) avoid(a netip.AddrPort, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !slices.Contains(t.all, a) {
		return
	}
	if t.aside == nil {
		t.aside = make(map[netip.AddrPort]time.Time)
	}
	t.aside[a] = until
}

// has reports whether a is a target.
func (t *targets) has(a netip.AddrPort) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Contains(t.all, a)
}
