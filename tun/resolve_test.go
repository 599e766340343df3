package tun

import (
	"strings"
	"testing"
)

func TestEndpointWithAnAddressNeedsNoResolver(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"192.0.2.7:51840", "[2001:db8::7]:51840"} {
		found, err := resolve(t.Context(), endpoint)
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
		if found, err := resolve(t.Context(), endpoint); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), endpoint) {
			t.Errorf("%s: %v, %v", endpoint, found, err)
		}
	}
}
