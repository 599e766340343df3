package ipam_test

import (
	"net/netip"
	"regexp"
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

func TestOnlyNamesOfClaimsAreRead(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "-", "default", "10.71.0.0", "10.71.0.0-33", "10.71.0.0-016", "10.71.0.0--16", "10.71.0.1-16", "10.071.0.0-16",
		"--1-128", "FD00-71---48", "fd00-0071---48", "fd00-71-0-0-0-0-0-0-48", "fd00:71::-48", "fd00-71--/48", "0--ffff-10.0.0.0-104",
	} {
		if p, err := ipam.ParseClaimName(name); err == nil {
			t.Errorf("%q was read as %v", name, p)
		}
	}
}

func FuzzClaimName(f *testing.F) {
	for _, p := range []string{"10.71.0.0/16", "0.0.0.0/0", "192.0.2.1/32", "fd00:71::/48", "::/0", "::1/128", "2001:db8:0:1:2:3:4:5/128"} {
		f.Add(ipam.ClaimName(pfx(p)), pfx(p).Addr().AsSlice(), uint8(pfx(p).Bits()))
	}
	f.Fuzz(func(t *testing.T, name string, addr []byte, length uint8) {
		if p, err := ipam.ParseClaimName(name); err == nil && ipam.ClaimName(p) != name {
			t.Errorf("%q is read as %v, whose name is %q", name, p, ipam.ClaimName(p))
		}
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
		if back, err := ipam.ParseClaimName(own); err != nil || back != p {
			t.Errorf("%v: %q is read as %v, %v", p, own, back, err)
		}
	})
}
