package tun

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

// attempted returns at which times, of those looked at, the peer is called.
func (c *caller) attempted(span time.Duration, alive, receives func(after time.Duration) bool, initiated time.Duration, found []netip.AddrPort) (at []time.Duration, addresses []netip.AddrPort) {
	begin, received := time.Unix(1, 0), time.Time{}
	for after := time.Duration(0); after < span; after += callLook {
		now, by := begin.Add(after), time.Time{}
		if initiated >= 0 && after >= initiated {
			by = begin.Add(initiated)
		}
		if receives(after) {
			received = now
		}
		if c.due(alive(after), alive(after), by, now) {
			at, addresses = append(at, after), append(addresses, c.call(found, received, now))
		}
	}
	return at, addresses
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
		at, addresses := new(caller).attempted(10*time.Second, c.alive, never, -1, c.found)
		if !slices.Equal(at, c.want) || !slices.Equal(addresses, c.addresses) {
			t.Errorf("%s: called after %v at %v, want %v at %v", name, at, addresses, c.want, c.addresses)
		}
	}
}

// The end that yields begins no handshake while the other does. The other begins another soon: its own is lost.
func TestTheEndThatYieldsLeavesHandshakesToTheOther(t *testing.T) {
	t.Parallel()
	again := (time.Second + yieldAgain + callLook - 1).Truncate(callLook)
	for yields, want := range map[bool][]time.Duration{
		true:  {0, again, again + callAgain},
		false: {0, time.Second + callCrossed, time.Second + callCrossed + callAgain},
	} {
		c := caller{yields: yields}
		if at, _ := c.attempted(6*time.Second, never, never, time.Second, nil); !slices.Equal(at, want) {
			t.Errorf("yields %v, and the other initiates after 1 s: attempts after %v, want %v", yields, at, want)
		}
	}
}

// Of two initiations that cross, that of the end that does not yield may lead to a session that does not work. It begins another when
// it has judged that one, and the end that yields must not begin one just before: they would cross, too.
func TestTheEndThatYieldsWaitsUntilTheOtherHasJudgedItsSession(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1000, 0) // the other end initiates
	for trip := time.Duration(0); trip <= 300*time.Millisecond; trip += 10 * time.Millisecond {
		arrives := begun.Add(trip / 2)
		judged := begun.Add(trip + probeLost + probeInterval + 2*callLook) // it looks every callLook, also for the handshake
		c := caller{yields: true, last: begun.Add(-trip / 2)}
		if again := judged.Add(trip / 2); c.due(false, false, arrives, again) {
			t.Errorf("round trip %v: the end that yields initiates before the other's next initiation arrives, after %v", trip, again.Sub(begun))
		}
	}
}

// WireGuard accepts an initiation while an attempt is made: each end may have dropped the handshake of the other.
func TestAnInitiationThatArrivesDuringAnAttemptHasCrossedIt(t *testing.T) {
	t.Parallel()
	last := time.Unix(1000, 0)
	for before, want := range map[time.Duration]time.Duration{
		-time.Millisecond: callCrossed + time.Millisecond, 0: callCrossed, callLook - 1: callCrossed - callLook + 1, callLook: callAgain,
	} {
		c := caller{last: last}
		due := func(after time.Duration) bool { return c.due(false, false, last.Add(-before), last.Add(after)) }
		if due(want-1) || !due(want) {
			t.Errorf("an initiation that arrived %v before the attempt: the next one is not due after %v", before, want)
		}
	}
}

func TestF10_AnAddressThatANameNoLongerStandsForIsLeft(t *testing.T) {
	t.Parallel()
	one, two := netip.MustParseAddrPort("192.0.2.1:51840"), netip.MustParseAddrPort("192.0.2.2:51840")
	c := caller{at: one, calls: 1}
	if at := c.call([]netip.AddrPort{two}, time.Time{}, time.Unix(1, 0)); at != two {
		t.Errorf("called at %v", at)
	}
	if at := c.call(nil, time.Time{}, time.Unix(9, 0)); at != two {
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
		var c caller
		now, received := time.Unix(1000, 0), time.Time{}
		for range x.calls {
			c.call(x.found, received, now)
			if x.received > 0 {
				received = now.Add(x.received)
			}
			now = now.Add(callAgain)
		}
		if c.rounds != x.rounds {
			t.Errorf("%+v: %d rounds", x, c.rounds)
		}
		c.due(true, true, time.Time{}, now)
		if c.rounds != 0 {
			t.Errorf("the peer has answered, after %d rounds", c.rounds)
		}
	}
}

// Each attempt discards the answer to the previous one, so a peer whose packets arrive gets more time
// for each; one that falls silent does not.
func TestAPeerWhosePacketsArriveGetsMoreTimeForEachAttempt(t *testing.T) {
	t.Parallel()
	const again = callAgain
	at, _ := new(caller).attempted(20*again, never, always, -1, nil)
	if want := []time.Duration{0, again, 3 * again, 7 * again, 11 * again, 15 * again, 19 * again}; !slices.Equal(at, want) {
		t.Errorf("attempts after %v, want %v", at, want)
	}
	at, _ = new(caller).attempted(9*again, never, func(after time.Duration) bool { return after < again || after > 4*again }, -1, nil)
	if want := []time.Duration{0, again, 3 * again, 4 * again, 5 * again, 7 * again}; !slices.Equal(at, want) {
		t.Errorf("attempts after %v, want %v", at, want)
	}
}

// A session is given up only after a handshake that was tried in the same outage has failed.
func TestOnlyAFailedHandshakeEndsASession(t *testing.T) {
	t.Parallel()
	var c caller
	at := []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:51840")}
	now := time.Unix(1000, 0)
	session := now.Add(-time.Minute)
	if c.failed(session) {
		t.Error("failed before any attempt")
	}
	c.due(false, false, time.Time{}, now)
	c.call(at, time.Time{}, now)
	if !c.failed(session) {
		t.Error("no handshake since the attempt, and it has not failed")
	}
	if c.failed(now.Add(time.Second)) {
		t.Error("failed although a handshake followed")
	}
	if c.due(true, false, time.Time{}, now); !c.failed(session) {
		t.Error("the attempt is forgotten although the link is not up")
	}
	if c.due(true, true, time.Time{}, now); c.failed(session) {
		t.Error("an attempt of an earlier outage counts")
	}
}
