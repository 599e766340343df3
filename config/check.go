package config

import (
	"errors"
	"net/netip"
)

// These functions check single values as Validate does, for values that are not part of a configuration.

// CheckLabel returns an error unless s is an RFC 1123 label in lower case.
func CheckLabel(s string) error {
	if !isLabel(s) {
		return errors.New(quote(s) + " is not an RFC 1123 label; " + labelRemedy)
	}
	return nil
}

// CheckPrefix returns an error unless p is a valid prefix of ordinary hosts, and not too wide.
func CheckPrefix(p netip.Prefix) error {
	return checkAlone(func(c *checker) { c.prefix(nil, p) })
}

// CheckPublicKey returns an error for a public key with which no shared secret is possible.
func CheckPublicKey(k Key) error {
	return checkAlone(func(c *checker) { c.key(nil, k) })
}

// CheckEndpoint returns an error unless endpoint is host:port.
func CheckEndpoint(endpoint string) error {
	if endpoint == "" {
		return errors.New("is empty; leave it out")
	}
	return checkAlone(func(c *checker) { c.endpoint(nil, endpoint) })
}

// checkAlone runs a check and returns the first problem.
func checkAlone(check func(*checker)) error {
	var c checker
	if check(&c); len(c.found) == 0 {
		return nil
	}
	return errors.New(Problem{Text: c.found[0].text, Remedy: c.found[0].remedy}.message())
}
