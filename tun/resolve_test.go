package tun

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestEndpointWithAnAddressNeedsNoResolver(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"192.0.2.7:51840", "[2001:db8::7]:51840"} {
		found, err := newResolver().resolve(t.Context(), endpoint, time.Unix(1000, 0))
		if err != nil || len(found) != 1 || found[0].String() != endpoint {
			t.Errorf("%s: %v, %v", endpoint, found, err)
		}
	}
}

func TestMalformedEndpointIsNamedWithARemedy(t *testing.T) {
	t.Parallel()
	for endpoint, says := range map[string]string{
		"gw-b.example":       "write host:port",
		"gw-b.example:http":  "not a number from 1 to 65535",
		"gw-b.example:70000": "not a number from 1 to 65535",
		"[2001:db8::7:51840": "write host:port",
	} {
		if found, err := newResolver().resolve(t.Context(), endpoint, time.Unix(1000, 0)); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), endpoint) {
			t.Errorf("%s: %v, %v", endpoint, found, err)
		}
	}
}

// named is a resolver with a DNS server of these answers, which counts the questions.
func named(answers map[string][]string) (r *resolver, questions map[string]int) {
	r, questions = newResolver(), make(map[string]int)
	r.lookup = func(_ context.Context, host string) (found []netip.Addr, err error) {
		questions[host]++
		if answers[host] == nil {
			return nil, errors.New("no such host")
		}
		for _, a := range answers[host] {
			found = append(found, netip.MustParseAddr(a))
		}
		return found, nil
	}
	return r, questions
}

// 32 links with 8 names each, which are resolved as often as links initiate.
func TestT10_NamesAreLookedUpAtARate(t *testing.T) {
	t.Parallel()
	r, questions := named(nil)
	begun := time.Unix(1000, 0)
	for now := begun; now.Before(begun.Add(time.Minute)); now = now.Add(2 * time.Second) {
		for n := range 32 * 8 {
			_, _ = r.resolve(t.Context(), fmt.Sprintf("gw-%d.example:51840", n), now)
		}
	}
	sum := 0
	for _, n := range questions {
		sum += n
	}
	if most := lookupBurst + int(time.Minute/lookupInterval); sum > most || sum < most/2 {
		t.Errorf("%d lookups in a minute, want at most %d", sum, most)
	}
}

func TestAnAnswerIsSharedAndAFailureIsRepeatedLessOften(t *testing.T) {
	t.Parallel()
	answers := map[string][]string{"gw.example": {"192.0.2.1"}}
	r, questions := named(answers)
	begun := time.Unix(1000, 0)
	is := func(after time.Duration, endpoint, want string) {
		t.Helper()
		found, err := r.resolve(t.Context(), endpoint, begun.Add(after))
		if got := fmt.Sprint(found, err); got != want {
			t.Errorf("after %v: %s, want %s", after, got, want)
		}
	}
	is(0, "gw.example:1", "[192.0.2.1:1] <nil>")
	is(lookupFresh-1, "gw.example:2", "[192.0.2.1:2] <nil>")
	answers["gw.example"] = []string{"192.0.2.2"}
	is(lookupFresh, "gw.example:1", "[192.0.2.2:1] <nil>")
	if questions["gw.example"] != 2 {
		t.Errorf("%d lookups, want 2", questions["gw.example"])
	}
	delete(answers, "gw.example")
	for after := 2 * lookupFresh; after < time.Minute+2*lookupFresh; after += 100 * time.Millisecond {
		is(after, "gw.example:1", `[] endpoint "gw.example:1": no such host`)
	}
	if n := questions["gw.example"] - 2; n < 6 || n > 8 { // after 0, 1, 3, 7, 15, 30, 45 s
		t.Errorf("%d lookups of a name that fails, in a minute", n)
	}
	answers["gw.example"] = []string{"192.0.2.3"}
	is(time.Minute+2*lookupFresh+lookupLongest, "gw.example:1", "[192.0.2.3:1] <nil>")
}

func TestANameThatNoLinkAsksForIsForgotten(t *testing.T) {
	t.Parallel()
	r, _ := named(nil)
	now := time.Unix(1000, 0)
	for n := range 10_000 {
		_, _ = r.resolve(t.Context(), fmt.Sprintf("gw-%d.example:1", n), now)
		now = now.Add(time.Second)
	}
	if n := len(r.names); n > 2+int(lookupKept/time.Second) {
		t.Errorf("%d names are kept", n)
	}
}

// A name can stand for any address, also for those that an announcement cannot list.
func TestT3_ANameIsNotResolvedToAddressesOfThisHost(t *testing.T) {
	t.Parallel()
	r, _ := named(map[string][]string{
		"some.example": {"127.0.0.1", "169.254.169.254", "192.0.2.1", "::1", "fe80::1%eth0", "2001:db8::1", "::ffff:127.0.0.1"},
		"none.example": {"224.0.0.1", "0.0.0.0", "::", "255.255.255.255", "ff02::1"},
	})
	found, err := r.resolve(t.Context(), "some.example:7", time.Unix(1000, 0))
	if fmt.Sprint(found, err) != "[192.0.2.1:7 [2001:db8::1]:7] <nil>" {
		t.Errorf("%v, %v", found, err)
	}
	if found, err := r.resolve(t.Context(), "none.example:7", time.Unix(1000, 0)); err == nil || !strings.Contains(err.Error(), "the name has no address of another host") {
		t.Errorf("%v, %v", found, err)
	}
}
