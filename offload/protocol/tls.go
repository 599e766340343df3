package protocol

import (
	"crypto/tls"
	"errors"
)

// Fingerprint returns the fingerprint of a certificate: the SHA-256 of its DER form, in
// hexadecimal digits.
func Fingerprint(c tls.Certificate) string {
	if len(c.Certificate) == 0 {
		return ""
	}
	return Hash(c.Certificate[0])
}

// Server returns the configuration of a lender that accepts the one client whose certificate
// has the fingerprint that pinned returns. No request is read from another one. While pinned
// returns nothing, no client is accepted.
func Server(own tls.Certificate, pinned func() string) *tls.Config {
	c := mutual(own, pinned)
	c.ClientAuth = tls.RequireAnyClientCert
	return c
}

// Client is Server for a borrower.
func Client(own tls.Certificate, pinned func() string) *tls.Config {
	c := mutual(own, pinned)
	c.InsecureSkipVerify = true // neither a name nor an authority counts: VerifyConnection compares the whole certificate
	return c
}

func mutual(own tls.Certificate, pinned func() string) *tls.Config {
	return &tls.Config{
		Certificates:           []tls.Certificate{own},
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{"http/1.1"},
		SessionTicketsDisabled: true,
		VerifyConnection: func(state tls.ConnectionState) error {
			want := pinned()
			switch {
			case want == "":
				return errors.New("the other cluster has not announced the certificate of its agent yet")
			case len(state.PeerCertificates) == 0 || Hash(state.PeerCertificates[0].Raw) != want:
				return errors.New("the certificate is not the one that the other cluster announced")
			}
			return nil
		},
	}
}
