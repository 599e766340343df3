package tun

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

func TestAPeerIsCalledUntilItAnswers(t *testing.T) {
	t.Parallel()
	one, two := netip.MustParseAddrPort("192.0.2.1:51840"), netip.MustParseAddrPort("192.0.2.2:51840")
	begin := time.Unix(1, 0)
	for name, c := range map[string]struct {
		yields bool
		found  []netip.AddrPort
		alive  func(after time.Duration) bool
		want   map[time.Duration]netip.AddrPort // calls of the first 13 s
	}{
		"that never does": {false, []netip.AddrPort{one}, nil,
			map[time.Duration]netip.AddrPort{0: one, 2: one, 4: one, 6: one, 8: one, 10: one, 12: one}},
		"by the end that yields": {true, []netip.AddrPort{one}, nil,
			map[time.Duration]netip.AddrPort{0: one, 3: one, 6: one, 9: one, 12: one}},
		"at each of its addresses": {false, []netip.AddrPort{one, two}, nil,
			map[time.Duration]netip.AddrPort{0: one, 2: one, 4: two, 6: two, 8: one, 10: one, 12: two}},
		"that does from the third second on": {false, []netip.AddrPort{one}, func(after time.Duration) bool { return after >= 3 },
			map[time.Duration]netip.AddrPort{0: one, 2: one}},
		"that stops to for some time": {false, []netip.AddrPort{one}, func(after time.Duration) bool { return after < 5 || after > 8 },
			map[time.Duration]netip.AddrPort{5: one, 7: one}},
		"whose name stands for nothing": {false, nil, nil,
			map[time.Duration]netip.AddrPort{0: {}, 2: {}, 4: {}, 6: {}, 8: {}, 10: {}, 12: {}}},
	} {
		caller := caller{yields: c.yields}
		for after := range time.Duration(13) {
			now := begin.Add(after * time.Second)
			want, calls := c.want[after]
			if due := caller.due(c.alive != nil && c.alive(after), false, now); due != calls {
				t.Errorf("%s, after %d s: called %v, want %v", name, after, due, calls)
			} else if due {
				if at := caller.call(c.found, now); at != want {
					t.Errorf("%s, after %d s: called at %v, want %v", name, after, at, want)
				}
			}
		}
	}
}

func TestAPeerThatWasGoneForLongIsCalledAsOftenAsWireGuardWould(t *testing.T) {
	t.Parallel()
	var c caller
	calls, now := 0, time.Unix(1, 0)
	for range 120 {
		if c.due(false, false, now) {
			c.call([]netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:51840")}, now)
			calls++
		}
		now = now.Add(time.Second)
	}
	if calls != 60/2+60/5 {
		t.Errorf("%d calls in two minutes", calls)
	}
}

func TestF10_AnAddressThatANameNoLongerStandsForIsLeft(t *testing.T) {
	t.Parallel()
	one, two := netip.MustParseAddrPort("192.0.2.1:51840"), netip.MustParseAddrPort("192.0.2.2:51840")
	c := caller{at: one, calls: 1}
	if at := c.call([]netip.AddrPort{two}, time.Unix(1, 0)); at != two {
		t.Errorf("called at %v", at)
	}
	if at := c.call(nil, time.Unix(9, 0)); at != two {
		t.Errorf("without any address, called at %v", at)
	}
}

// Each attempt discards the answer to the previous one, so a peer whose packets arrive gets more time
// for each, and the two ends different times.
func TestAPeerWhosePacketsArriveGetsMoreTimeForEachAttempt(t *testing.T) {
	t.Parallel()
	for yields, want := range map[bool][]time.Duration{
		false: {0, 2, 6, 11, 16, 21},
		true:  {0, 3, 9, 17, 25, 33},
	} {
		c := caller{yields: yields}
		begin := time.Unix(1, 0)
		var attempts []time.Duration
		for after := range time.Duration(35) {
			if now := begin.Add(after * time.Second); c.due(false, true, now) {
				c.call([]netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:51840")}, now)
				attempts = append(attempts, after)
			}
		}
		if !slices.Equal(attempts[:len(want)], want) {
			t.Errorf("yields %v: attempts after %d s, want %d", yields, attempts, want)
		}
	}
}

// A session is discarded only after a handshake that was tried in the same outage has failed.
func TestOnlyAFailedHandshakeEndsASession(t *testing.T) {
	t.Parallel()
	var c caller
	at := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:51840")}
	now := time.Unix(1000, 0)
	session := now.Add(-time.Minute)
	if c.failed(session) {
		t.Error("failed before any attempt")
	}
	c.due(false, true, now)
	c.call(at, now)
	if !c.failed(session) {
		t.Error("no handshake since the attempt, and it has not failed")
	}
	if c.failed(now.Add(time.Second)) {
		t.Error("failed although a handshake followed")
	}
	c.due(true, true, now)
	if c.failed(session) {
		t.Error("an attempt of an earlier outage counts")
	}
}
