package config

import (
	"errors"
	"net/netip"
)

// These check single values as Validate does, for those who get them from elsewhere
// than from a configuration.

// CheckLabel says why a text is no RFC 1123 label in lower case; nil: it is one.
func CheckLabel(s string) error {
	if !isLabel(s) {
		return errors.New(quote(s) + " is not an RFC 1123 label; " + labelRemedy)
	}
	return nil
}

// CheckPrefix says why a prefix is not one of ordinary hosts: invalid, with host
// bits, too wide, or special.
func CheckPrefix(p netip.Prefix) error {
	return checkAlone(func(c *checker) { c.prefix(nil, p) })
}

// CheckPublicKey says why nobody can talk to the owner of a public key.
func CheckPublicKey(k Key) error {
	return checkAlone(func(c *checker) { c.key(nil, k) })
}

// CheckEndpoint says why a text is not host:port.
func CheckEndpoint(endpoint string) error {
	if endpoint == "" {
		return errors.New("is empty; leave it out")
	}
	return checkAlone(func(c *checker) { c.endpoint(nil, endpoint) })
}

// checkAlone runs a check and gives the first thing that it found.
func checkAlone(check func(*checker)) error {
	var c checker
	if check(&c); len(c.found) == 0 {
		return nil
	}
	return errors.New(Problem{Text: c.found[0].text, Remedy: c.found[0].remedy}.message())
}
