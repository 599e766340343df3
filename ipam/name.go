package ipam

import (
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
