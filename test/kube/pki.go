package kube

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"time"
)

// authority is a certificate authority for a cluster's server and its clients.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

// pair is a certificate and its key, in PEM.
type pair struct{ certificate, key []byte }

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := certificate(pkix.Name{CommonName: "test authority"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	signed, err := x509.ParseCertificate(der)
	return &authority{signed, key}, err
}

// issue signs a certificate: of a server if it has addresses, else of a client.
func (a *authority) issue(subject pkix.Name, addresses ...net.IP) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	template := certificate(subject)
	template.KeyUsage, template.IPAddresses = x509.KeyUsageDigitalSignature, addresses
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if len(addresses) > 0 {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return pair{}, err
	}
	encoded, err := encodeKey(key)
	return pair{encode("CERTIFICATE", der), encoded}, err
}

// certificate returns a template that outlives every test.
func certificate(subject pkix.Name) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: subject,
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
	}
}

// tokenKey returns a key that signs service account tokens, in PEM: in the older format of
// elliptic curve keys, because the API server accepts only that for verification.
func tokenKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	return encode("EC PRIVATE KEY", der), err
}

func encodeKey(key any) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return encode("PRIVATE KEY", der), err
}

func encode(what string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: what, Bytes: der})
}
