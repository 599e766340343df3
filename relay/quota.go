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
	all     tally
	served  map[netip.AddrPort]*tally
	callers map[netip.Addr]*tally
	held    []*slot // those that may leave, in no order
}

// tally is a number of open connections or sessions that have a limit.
type tally struct {
	n int
	// full is the time before which none of them has been idle for long enough: until then the search for one, which
	// looks at all that are held, is in vain.
	full int64
}

func newUsage(q Quota, room time.Duration, now func() int64) *usage {
	return &usage{quota: q, room: room, now: now, served: make(map[netip.AddrPort]*tally), callers: make(map[netip.Addr]*tally)}
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
		ofServed, ofCaller := tallyOf(u.served, served), tallyOf(u.callers, caller)
		full := &u.all
		switch {
		case u.all.n >= u.quota.All:
			refusal = TooMany
		case ofServed.n >= u.quota.PerMapping:
			refusal, full = TooManyOfMapping, ofServed
		case ofCaller.n >= u.quota.PerCaller:
			refusal, full = TooManyOfCaller, ofCaller
		default:
			u.all.n++
			ofServed.n++
			ofCaller.n++
			u.served[served], u.callers[caller] = ofServed, ofCaller
			return &slot{usage: u, served: served, caller: caller, at: -1}, 0, true
		}
		longest := u.longestIdle(full, func(s *slot) bool {
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

// tallyOf returns the tally of a key, a new one if there is none.
func tallyOf[K comparable](of map[K]*tally, k K) *tally {
	if t := of[k]; t != nil {
		return t
	}
	return new(tally)
}

func drop[K comparable](of map[K]*tally, k K) {
	if of[k].n--; of[k].n == 0 {
		delete(of, k)
	}
}

// longestIdle returns the one of a tally that was idle for the longest time, nil if none was for long enough. The caller
// holds u.mu.
func (u *usage) longestIdle(of *tally, counts func(*slot) bool) (longest *slot) {
	now := u.now()
	if now < of.full {
		return nil
	}
	oldest := now
	for _, s := range u.held {
		if moved := s.idle.moved.Load(); moved <= oldest && counts(s) {
			oldest, longest = moved, s
		}
	}
	// They can only become younger: whatever moves or is opened later becomes idle later.
	if of.full = oldest + int64(u.room); now < of.full {
		return nil
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
	u.all.n--
	drop(u.served, s.served)
	drop(u.callers, s.caller)
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
	return u.all.n
}
