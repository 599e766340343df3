package link

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

// look is how often a link that is not up checks whether to initiate.
const look = 100 * time.Millisecond

// attempted returns at which times, of those looked at, the peer is called.
func (c *Caller) attempted(span time.Duration, alive, receives func(after time.Duration) bool, found []netip.AddrPort) (at []time.Duration, addresses []netip.AddrPort) {
	begin, received := time.Unix(1, 0), time.Time{}
	for after := time.Duration(0); after < span; after += look {
		now := begin.Add(after)
		if receives(after) {
			received = now
		}
		if c.Due(alive(after), now) {
			at, addresses = append(at, after), append(addresses, c.Call(found, received, now))
		}
	}
	return at, addresses
}

func calling() *Caller {
	c := NewCaller(false)
	return &c
}

func never(time.Duration) bool { return false }

func always(time.Duration) bool { return true }

func TestAPeerIsCalledUntilItAnswers(t *testing.T) {
	t.Parallel()
	one, two := netip.MustParseAddrPort("192.0.2.1:51840"), netip.MustParseAddrPort("192.0.2.2:51840")
	const again = callAgain
	for name, c := range map[string]struct {
		found     []netip.AddrPort
		alive     func(after time.Duration) bool
		want      []time.Duration
		addresses []netip.AddrPort
	}{
		"that never does": {[]netip.AddrPort{one}, never, []time.Duration{0, again, 2 * again, 3 * again, 4 * again}, []netip.AddrPort{one, one, one, one, one}},
		"at each of its addresses": {[]netip.AddrPort{one, two}, never,
			[]time.Duration{0, again, 2 * again, 3 * again, 4 * again}, []netip.AddrPort{one, one, two, two, one}},
		"that does after some time": {[]netip.AddrPort{one}, func(after time.Duration) bool { return after >= 3*time.Second }, []time.Duration{0, again}, []netip.AddrPort{one, one}},
		"that stops to for some time": {[]netip.AddrPort{one}, func(after time.Duration) bool { return after < 5*time.Second || after > 8*time.Second },
			[]time.Duration{5 * time.Second, 5*time.Second + again}, []netip.AddrPort{one, one}},
		"whose name stands for nothing": {nil, never, []time.Duration{0, again, 2 * again, 3 * again, 4 * again}, make([]netip.AddrPort, 5)},
	} {
		at, addresses := calling().attempted(10*time.Second, c.alive, never, c.found)
		if !slices.Equal(at, c.want) || !slices.Equal(addresses, c.addresses) {
			t.Errorf("%s: called after %v at %v, want %v at %v", name, at, addresses, c.want, c.addresses)
		}
	}
}

// Attempts of both ends that cross do not cross for ever.
func TestTheEndWithTheSmallerKeyTriesAgainSooner(t *testing.T) {
	t.Parallel()
	c := NewCaller(true)
	at, _ := c.attempted(4*callAgain, never, never, nil)
	if want := []time.Duration{0, 2 * time.Second, 4 * time.Second, 6 * time.Second, 8 * time.Second}; !slices.Equal(at, want) {
		t.Errorf("attempts after %v, want %v", at, want)
	}
}

func TestF10_AnAddressThatANameNoLongerStandsForIsLeft(t *testing.T) {
	t.Parallel()
	one, two := netip.MustParseAddrPort("192.0.2.1:51840"), netip.MustParseAddrPort("192.0.2.2:51840")
	c := Caller{At: one, calls: 1}
	if at := c.Call([]netip.AddrPort{two}, time.Time{}, time.Unix(1, 0)); at != two {
		t.Errorf("called at %v", at)
	}
	if at := c.Call(nil, time.Time{}, time.Unix(9, 0)); at != two {
		t.Errorf("without any address, called at %v", at)
	}
}

// The source port changes when no address has answered, unless the peer is only slow.
func TestARoundEndsWhenNoAddressHasAnswered(t *testing.T) {
	t.Parallel()
	found := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:51840"), netip.MustParseAddrPort("192.0.2.2:51840")}
	for _, x := range []struct {
		found    []netip.AddrPort
		received time.Duration // after each attempt; 0: nothing arrives
		calls    int
		rounds   int
	}{
		{found, 0, 2 * callsEach, 0},
		{found, 0, 2*callsEach + 1, 1},
		{found, 0, 4*callsEach + 1, 2},
		{found[:1], 0, callsEach, 0},
		{found[:1], 0, callsEach + 1, 1},
		{found[:1], time.Second, 5 * callsEach, 0},
		{nil, 0, 5 * callsEach, 0},
	} {
		var c Caller
		now, received := time.Unix(1000, 0), time.Time{}
		for range x.calls {
			c.Call(x.found, received, now)
			if x.received > 0 {
				received = now.Add(x.received)
			}
			now = now.Add(callAgain)
		}
		if c.Rounds != x.rounds {
			t.Errorf("%+v: %d rounds", x, c.Rounds)
		}
		c.Due(true, now)
		if c.Rounds != 0 {
			t.Errorf("the peer has answered, after %d rounds", c.Rounds)
		}
	}
}

// Each attempt discards the answer to the previous one, so a peer whose packets arrive gets more time
// for each; one that falls silent does not.
func TestAPeerWhosePacketsArriveGetsMoreTimeForEachAttempt(t *testing.T) {
	t.Parallel()
	const again = callAgain
	at, _ := calling().attempted(20*again, never, always, nil)
	if want := []time.Duration{0, again, 3 * again, 7 * again, 11 * again, 15 * again, 19 * again}; !slices.Equal(at, want) {
		t.Errorf("attempts after %v, want %v", at, want)
	}
	at, _ = calling().attempted(9*again, never, func(after time.Duration) bool { return after < again || after > 4*again }, nil)
	if want := []time.Duration{0, again, 3 * again, 4 * again, 5 * again, 7 * again}; !slices.Equal(at, want) {
		t.Errorf("attempts after %v, want %v", at, want)
	}
}

// A session is given up only after a handshake that was tried in the same outage has failed.
func TestOnlyAFailedHandshakeEndsASession(t *testing.T) {
	t.Parallel()
	var c Caller
	at := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:51840")}
	now := time.Unix(1000, 0)
	session := now.Add(-time.Minute)
	if c.failed(session) {
		t.Error("failed before any attempt")
	}
	c.Due(false, now)
	c.Call(at, time.Time{}, now)
	if !c.failed(session) {
		t.Error("no handshake since the attempt, and it has not failed")
	}
	if c.failed(now.Add(time.Second)) {
		t.Error("failed although a handshake followed")
	}
	if c.Due(true, now); c.failed(session) {
		t.Error("an attempt of an earlier outage counts")
	}
}

// While the link works, a replayed initiation changes nothing, and one alone never does.
func TestF12_AReplayedInitiationIsForgottenOnlyOnADeadLink(t *testing.T) {
	t.Parallel()
	var c Caller
	now := time.Unix(1000, 0)
	if c.Forgets(false, now) {
		t.Error("the first one")
	}
	if c.Forgets(false, now.Add(callForget-1)) {
		t.Error("another, soon after")
	}
	if c.Forgets(true, now.Add(callForget)) || c.Forgets(false, now.Add(callForget+1)) {
		t.Error("the first after the peer answered")
	}
	if !c.Forgets(false, now.Add(3*callForget)) {
		t.Error("one of a peer that has not answered for long")
	}
}
