package kube

import (
	"crypto/x509/pkix"
	"net"
)

// Authority signs certificates for clusters that are started elsewhere. Safe for concurrent
// use.
type Authority struct{ authority *authority }

// NewAuthority creates an authority with a new key.
func NewAuthority() (*Authority, error) {
	a, err := newAuthority()
	return &Authority{a}, err
}

// Certificate returns the authority's certificate, in PEM.
func (a *Authority) Certificate() []byte { return encode("CERTIFICATE", a.authority.certificate.Raw) }

// Server returns a server certificate and its key, in PEM.
func (a *Authority) Server(name string, addresses ...net.IP) (certificate, key []byte, err error) {
	p, err := a.authority.issue(pkix.Name{CommonName: name}, addresses...)
	return p.certificate, p.key, err
}

// Client returns a user certificate and its key, in PEM.
func (a *Authority) Client(user string, groups ...string) (certificate, key []byte, err error) {
	p, err := a.authority.issue(pkix.Name{CommonName: user, Organization: groups})
	return p.certificate, p.key, err
}

// TokenKey returns a key that signs service account tokens, in PEM.
func TokenKey() ([]byte, error) { return tokenKey() }
