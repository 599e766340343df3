package node

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRangeOfPrefersTheLongestPrefix(t *testing.T) {
	t.Parallel()
	route := func(prefix, link string) KernelRoute {
		r := KernelRoute{Prefix: netip.MustParsePrefix(prefix)}
		if link != "" {
			r.Hops = []Hop{{Link: link, Via: netip.MustParseAddr("10.80.0.1")}}
		}
		return r
	}
	s := State{Routes: []KernelRoute{route("10.71.0.0/16", "strait-1"), route("10.71.0.0/16", ""), route("10.71.2.0/24", ""), route("10.0.0.0/8", "strait-2")}}
	for a, want := range map[string]struct {
		prefix    string
		blackhole bool
	}{"10.71.1.1": {"10.71.0.0/16", false}, "10.71.2.9": {"10.71.2.0/24", true}, "10.1.1.1": {"10.0.0.0/8", false}, "192.0.2.1": {"invalid Prefix", false}} {
		p, blackhole, gateways := s.rangeOf(netip.MustParseAddr(a))
		if p.String() != want.prefix || blackhole != want.blackhole || (len(gateways) == 1) != (p.IsValid() && !blackhole) {
			t.Errorf("%s: %v %v %v, want %+v", a, p, blackhole, gateways, want)
		}
	}
}

func TestRoutingErrorsAreResults(t *testing.T) {
	t.Parallel()
	for err, is := range map[error]bool{unix.EINVAL: true, unix.ENETUNREACH: true, unix.EHOSTUNREACH: true, unix.EACCES: true, unix.EXDEV: true, unix.ENOBUFS: false, nil: false} {
		if why, got := refusal(err); got != is || is != (why != "") {
			t.Errorf("%v: %q %v", err, why, got)
		}
	}
}
