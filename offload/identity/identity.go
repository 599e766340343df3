// Package identity makes and stores the key with which an agent proves who it is to the agent of
// the other cluster. The key is made in its cluster, is stored in a Secret of the agent's
// namespace, and never leaves the cluster. Its certificate has a fingerprint, which an
// annotation of the Secret shows and the Peering announces.
package identity

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/offload/protocol"
)

// FingerprintAnnotation of the Secret is the fingerprint of its certificate.
const FingerprintAnnotation = "strait.dev/fingerprint"

// Load returns the certificate in a Secret. If there is no such Secret, it makes one.
func Load(ctx context.Context, secrets *client.Kind[*corev1.Secret, *corev1.SecretList], name string) (tls.Certificate, error) {
	is, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		is, err = create(ctx, secrets, name)
	}
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("the key in Secret %s: %w", name, err)
	}
	c, err := tls.X509KeyPair(is.Data[corev1.TLSCertKey], is.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return c, fmt.Errorf("the key in Secret %s is not valid; delete the Secret, and run strait lend or strait borrow again: %w", name, err)
	}
	return c, nil
}

func create(ctx context.Context, secrets *client.Kind[*corev1.Secret, *corev1.SecretList], name string) (*corev1.Secret, error) {
	certificate, key, err := generate(name)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	is, err := secrets.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{FingerprintAnnotation: protocol.Fingerprint(pair)}},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: certificate, corev1.TLSPrivateKeyKey: key},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return secrets.Get(ctx, name, metav1.GetOptions{})
	}
	return is, err
}

// Generate returns a new certificate that is not stored.
func Generate(name string) (tls.Certificate, error) {
	certificate, key, err := generate(name)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(certificate, key)
}

// generate makes the key and the self-signed certificate of an agent, in PEM. The
// certificate has no time and no name that counts: the other side knows its fingerprint.
func generate(agent string) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make the key of %s: %w", agent, err)
	}
	is := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: agent},
		NotBefore:    time.Unix(0, 0),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), // RFC 5280 section 4.1.2.5: no expiry
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, is, is, private.Public(), private)
	if err != nil {
		return nil, nil, fmt.Errorf("make the certificate of %s: %w", agent, err)
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, fmt.Errorf("make the key of %s: %w", agent, err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded}), nil
}
