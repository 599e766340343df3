package ipam_test

import (
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"strait.dev/strait/ipam"
)

// subdomain is what Kubernetes takes for a name (RFC 1123), here also short
// enough for a label value.
var subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

func TestAClaimIsNamedAfterItsBlock(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{
		"10.71.0.0/16":            "10.71.0.0-16",
		"10.71.9.9/16":            "10.71.0.0-16",
		"10.70.0.11/32":           "10.70.0.11-32",
		"0.0.0.0/0":               "0.0.0.0-0",
		"fd00:71::/48":            "fd00-71---48",
		"fd00:71:0:1:2:3:4:5/128": "fd00-71-0-1-2-3-4-5-128",
		"::/0":                    "0---0",
		"::1/128":                 "0--1-128",
	} {
		if got := ipam.ClaimName(pfx(prefix)); got != want {
			t.Errorf("%s: got %s, want %s", prefix, got, want)
		}
	}
}

// claimed reverses ClaimName.
func claimed(name string) (netip.Prefix, error) {
	i := strings.LastIndexByte(name, '-')
	return netip.ParsePrefix(strings.ReplaceAll(name[:i], "-", ":") + "/" + name[i+1:])
}

func FuzzClaimName(f *testing.F) {
	for _, p := range []string{"10.71.0.0/16", "0.0.0.0/0", "192.0.2.1/32", "fd00:71::/48", "::/0", "::1/128", "2001:db8:0:1:2:3:4:5/128"} {
		f.Add(pfx(p).Addr().AsSlice(), uint8(pfx(p).Bits()))
	}
	f.Fuzz(func(t *testing.T, addr []byte, length uint8) {
		a, ok := netip.AddrFromSlice(addr)
		if !ok || a.Is4In6() {
			return
		}
		p := netip.PrefixFrom(a, int(length)%(a.BitLen()+1)).Masked()
		if p.Addr().Is4In6() {
			return
		}
		own := ipam.ClaimName(p)
		if !subdomain.MatchString(own) || len(own) > 63 {
			t.Errorf("%v: %q is no name for an object", p, own)
		}
		if back, err := claimed(own); err != nil || back != p {
			t.Errorf("%v: %q is read as %v, %v", p, own, back, err)
		}
	})
}
