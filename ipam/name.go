package ipam

import (
	"fmt"
	"net/netip"
	"strings"
)

var dashes = strings.NewReplacer(":", "-", "/", "-")

// ClaimName returns the name of a claim for p, which must be valid: 10.71.0.0-16, or fd00-71---48 for fd00:71::/48. The
// mapping is one to one, so a store with unique names refuses a second claim for the same prefix.
//
// The name is the text of the prefix with "-" for ":" and "/", and with "0" before a leading "::". So it is a DNS
// subdomain (RFC 1123) and a label value, and a CEL rule can check it.
func ClaimName(p netip.Prefix) string {
	name := dashes.Replace(p.Masked().String())
	if name[0] == '-' {
		return "0" + name
	}
	return name
}

// ParseClaimName returns the prefix whose ClaimName is name.
func ParseClaimName(name string) (netip.Prefix, error) {
	addr, length := name, ""
	if i := strings.LastIndexByte(name, '-'); i >= 0 {
		addr, length = name[:i], name[i+1:]
	}
	p, err := netip.ParsePrefix(strings.ReplaceAll(addr, "-", ":") + "/" + length)
	if err != nil || check(p) != nil || ClaimName(p) != name {
		return netip.Prefix{}, fmt.Errorf("ipam: %q does not name a prefix; names are like 10.71.0.0-16 or fd00-71---48", name)
	}
	return p, nil
}
