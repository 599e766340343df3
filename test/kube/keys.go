package kube

import (
	"crypto/x509/pkix"
	"net"
)

// Authority signs certificates for clusters that are started elsewhere. It is for any
// goroutine.
type Authority struct{ authority *authority }

// NewAuthority makes one with a key of its own.
func NewAuthority() (*Authority, error) {
	a, err := newAuthority()
	return &Authority{a}, err
}

// Certificate is its own, PEM.
func (a *Authority) Certificate() []byte { return encode("CERTIFICATE", a.authority.certificate.Raw) }

// Server is a certificate of a server and its key, PEM.
func (a *Authority) Server(name string, addresses ...net.IP) (certificate, key []byte, err error) {
	p, err := a.authority.issue(pkix.Name{CommonName: name}, addresses...)
	return p.certificate, p.key, err
}

// Client is a certificate of a user and its key, PEM.
func (a *Authority) Client(user string, groups ...string) (certificate, key []byte, err error) {
	p, err := a.authority.issue(pkix.Name{CommonName: user, Organization: groups})
	return p.certificate, p.key, err
}

// TokenKey is a key to sign the tokens of service accounts with, PEM.
func TokenKey() ([]byte, error) { return tokenKey() }
