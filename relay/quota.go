package relay

import (
	"net/netip"
	"sync"
	"time"
)

// usage counts open connections or sessions against a Quota. What is served is a mapped or proxied address with port 0, or
// the listening port of a forward. If a limit is reached, the one of those that count in it that was idle for the longest
// time leaves, if that is long enough. Safe for concurrent use.
type usage struct {
	quota Quota
	room  time.Duration // Limits.Room
	now   func() int64  // as in idle

	mu      sync.Mutex
	all     int
	served  map[netip.AddrPort]int
	callers map[netip.Addr]int
	held    []*slot // those that may leave, in no order
}

func newUsage(q Quota, room time.Duration, now func() int64) *usage {
	return &usage{quota: q, room: room, now: now, served: make(map[netip.AddrPort]int), callers: make(map[netip.Addr]int)}
}

// slot is what a connection or session takes of a usage.
type slot struct {
	usage  *usage
	served netip.AddrPort
	caller netip.Addr

	// Protected by usage.mu.
	given bool
	at    int   // in held; -1: not there
	idle  *idle // nil before hold
	leave func()
}

// take counts one more, or returns the limit that is reached.
func (u *usage) take(served netip.AddrPort, caller netip.Addr) (*slot, Refusal, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for {
		var refusal Refusal
		switch {
		case u.all >= u.quota.All:
			refusal = TooMany
		case u.served[served] >= u.quota.PerMapping:
			refusal = TooManyOfMapping
		case u.callers[caller] >= u.quota.PerCaller:
			refusal = TooManyOfCaller
		default:
			u.all++
			u.served[served]++
			u.callers[caller]++
			return &slot{usage: u, served: served, caller: caller, at: -1}, 0, true
		}
		longest := u.longestIdle(func(s *slot) bool {
			return refusal == TooMany || refusal == TooManyOfMapping && s.served == served || refusal == TooManyOfCaller && s.caller == caller
		})
		if longest == nil {
			return nil, refusal, false
		}
		leave := longest.leave
		u.give(longest)
		go leave() // not here: the caller may hold locks that it takes
	}
}

// longestIdle returns the one that was idle for the longest time, nil if none was for long enough. The caller holds u.mu.
func (u *usage) longestIdle(counts func(*slot) bool) (longest *slot) {
	since := u.now() - int64(u.room)
	for _, s := range u.held {
		if moved := s.idle.moved.Load(); moved <= since && counts(s) {
			since, longest = moved, s
		}
	}
	return longest
}

// give stops counting a slot. The caller holds u.mu.
func (u *usage) give(s *slot) {
	if s.given {
		return
	}
	s.given = true
	s.keepLocked()
	u.all--
	if u.served[s.served]--; u.served[s.served] == 0 {
		delete(u.served, s.served)
	}
	if u.callers[s.caller]--; u.callers[s.caller] == 0 {
		delete(u.callers, s.caller)
	}
}

// give reverses take. Another call has no effect.
func (s *slot) give() {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	s.usage.give(s)
}

// hold lets another connection or session have the slot while this one is idle. leave ends it, and is called at most once,
// on a goroutine of its own; the slot is given already.
func (s *slot) hold(idle *idle, leave func()) {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	s.idle, s.leave, s.at = idle, leave, len(s.usage.held)
	s.usage.held = append(s.usage.held, s)
}

// keep reverses hold.
func (s *slot) keep() {
	s.usage.mu.Lock()
	defer s.usage.mu.Unlock()
	s.keepLocked()
}

func (s *slot) keepLocked() {
	if s.at < 0 {
		return
	}
	held := s.usage.held
	last := held[len(held)-1]
	held[s.at], last.at = last, s.at
	held[len(held)-1] = nil
	s.usage.held, s.at = held[:len(held)-1], -1
}

func (u *usage) taken() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.all
}
