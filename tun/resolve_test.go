package tun

import (
	"net/netip"
	"strings"
	"testing"
)

func TestEndpointWithAnAddressNeedsNoResolver(t *testing.T) {
	for _, endpoint := range []string{"192.0.2.7:51840", "[2001:db8::7]:51840"} {
		found, err := resolve(t.Context(), endpoint)
		if err != nil || len(found) != 1 || found[0].String() != endpoint {
			t.Errorf("%s: %v, %v", endpoint, found, err)
		}
	}
}

func TestMalformedEndpointIsNamedWithARemedy(t *testing.T) {
	for endpoint, says := range map[string]string{
		"gw-b.example":       "write host:port",
		"gw-b.example:http":  "not a number from 1 to 65535",
		"gw-b.example:70000": "not a number from 1 to 65535",
		"[2001:db8::7:51840": "write host:port",
	} {
		if found, err := resolve(t.Context(), endpoint); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), endpoint) {
			t.Errorf("%s: %v, %v", endpoint, found, err)
		}
	}
}

func TestEndpointMovesOnlyWhenTheLinkIsDeadAndTheNameHasMoved(t *testing.T) {
	one, two := netip.MustParseAddrPort("192.0.2.1:51840"), netip.MustParseAddrPort("192.0.2.2:51840")
	none := netip.AddrPort{}
	both := []netip.AddrPort{two, one}
	for name, c := range map[string]struct {
		current netip.AddrPort
		found   []netip.AddrPort
		alive   bool
		want    netip.AddrPort
	}{
		"first look-up":                  {none, both, false, two},
		"the peer came first":            {none, both, true, two},
		"alive, name moved":              {one, both[:1], true, one},
		"dead, name moved":               {one, both[:1], false, two},
		"dead, name still stands for it": {one, both, false, one},
		"dead, name stands for nothing":  {one, nil, false, one},
	} {
		if got := nextEndpoint(c.current, c.found, c.alive); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
