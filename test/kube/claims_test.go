//go:build apiserver

package kube

import (
	"net/netip"
	"testing"

	"strait.dev/strait/ipam"
)

func TestAPIServerRequiresTheNamesOfIpam(t *testing.T) {
	client := ours(t)("addressclaims")
	for _, text := range []string{"10.71.0.0/16", "10.80.0.11/32", "fd00:71::/48", "fd00:80::11/128", "::1:0:0:0/80"} {
		claim := sample(t, "addressclaims", edit{"spec.prefix", text}, edit{"metadata.name", ipam.ClaimName(netip.MustParsePrefix(text))})
		if _, err := create(t, client, claim); err != nil {
			t.Error(err)
		}
	}
}
