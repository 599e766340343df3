package protocol_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"testing"

	"strait.dev/strait/offload/protocol"
)

// certificate returns a self-signed certificate.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	is := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(rand.Reader, is, is, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestEachSideAcceptsOneCertificate(t *testing.T) {
	t.Parallel()
	lender, borrower, other := certificate(t), certificate(t), certificate(t)
	pin := func(c tls.Certificate) func() string { return func() string { return protocol.Fingerprint(c) } }
	none := func() string { return "" }
	for name, c := range map[string]struct {
		server, client *tls.Config
		accepted       bool
	}{
		"both are the announced ones":  {protocol.Server(lender, pin(borrower)), protocol.Client(borrower, pin(lender)), true},
		"another borrower":             {protocol.Server(lender, pin(borrower)), protocol.Client(other, pin(lender)), false},
		"another lender":               {protocol.Server(other, pin(borrower)), protocol.Client(borrower, pin(lender)), false},
		"a borrower without a key":     {protocol.Server(lender, pin(borrower)), protocol.Client(tls.Certificate{}, pin(lender)), false},
		"no borrower is announced yet": {protocol.Server(lender, none), protocol.Client(borrower, pin(lender)), false},
		"no lender is announced yet":   {protocol.Server(lender, pin(borrower)), protocol.Client(borrower, none), false},
		"an announced name of nothing": {protocol.Server(lender, pin(tls.Certificate{})), protocol.Client(tls.Certificate{}, pin(lender)), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near, far := net.Pipe()
			read := make(chan error, 1)
			go func() {
				server := tls.Server(far, c.server)
				defer far.Close()
				_, err := server.Read(make([]byte, 1))
				read <- err
			}()
			client := tls.Client(near, c.client)
			go io.Copy(io.Discard, client) // an alert of the server
			_, err := io.WriteString(client, "x")
			near.Close()
			if got := <-read; (got == nil) != c.accepted {
				t.Errorf("the lender reads: %v; the borrower writes: %v; accepted should be %v", got, err, c.accepted)
			}
		})
	}
}
