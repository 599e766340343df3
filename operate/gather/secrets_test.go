package gather

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// key is a key of WireGuard, made of a number.
func key(n byte) string {
	raw := make([]byte, keyLength)
	rand.NewChaCha8([32]byte{n}).Read(raw)
	return base64.StdEncoding.EncodeToString(raw)
}

func inHex(key string) string {
	raw, _ := base64.StdEncoding.DecodeString(key)
	return hex.EncodeToString(raw)
}

const (
	jwt      = "eyJhbGciOiJSUzI1NiIsImtpZCI6IngifQ.eyJpc3MiOiJrdWJlcm5ldGVzIn0.c2lnbmF0dXJl-b2Y_aXQ"
	invite   = "strait-invite-v1.eyJjbHVzdGVySUQiOiJhIiwicHJpdmF0ZUtleSI6Im5vdCJ9"
	pemKey   = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIrYSSNQFaA2Hwf1duRSxKtLYX5CB04fSeQ6tF1aY/PuoAoGCCqGSM49\n-----END EC PRIVATE KEY-----"
	ordinary = "c3RyYWl0LWdhdGV3YXlz"
)

func TestWhatLooksLikeASecretIsReplaced(t *testing.T) {
	s := &scanner{}
	s.addPublic(v1alpha1.PublicKey(key(1)))
	s.addSecret([]byte("correct horse battery staple\n"))
	s.addSecret([]byte(key(7) + "\n"))
	encoded := base64.StdEncoding.EncodeToString([]byte(key(2) + "\n"))
	for _, c := range []struct{ text, want string }{
		{"private " + key(2), "private [redacted]"},
		{`{"k":"` + key(2) + `"}`, `{"k":"[redacted]"}`},
		{"/keys/" + key(2), "/keys/[redacted]"},
		{"k=" + strings.TrimSuffix(key(2), "="), "k=[redacted]"},
		{strings.NewReplacer("+", "-", "/", "_").Replace(key(3)), "[redacted]"},
		{"private_hex=" + inHex(key(2)), "private_hex=[redacted]"},
		{"data: " + encoded, "data: [redacted]"},
		{invite + " and more", "[redacted] and more"},
		{"Authorized: " + jwt, "Authorized: [redacted]"},
		{"a\n" + pemKey + "\nb", "a\n[redacted]\nb"},
		{pemKey[:60], "[redacted]"},
		{"https://me:hunter2@host/", "https://[redacted]@host/"},
		{"it said correct horse battery staple twice", "it said [redacted] twice"},
		{base64.StdEncoding.EncodeToString([]byte("correct horse battery staple")), "[redacted]=="},
		{base64.StdEncoding.EncodeToString([]byte(key(7) + "\n")), "[redacted]"},

		{key(1), key(1)},
		{"public " + inHex(key(1)), "public " + inHex(key(1))},
		{ordinary, ordinary},
		{"containerd://" + inHex(key(2)), "containerd://" + inHex(key(2))},
		{"strait@sha256:" + inHex(key(2)), "strait@sha256:" + inHex(key(2))},
		{"/var/lib/kubelet/pods/2a3f9c0e-2b1d-4c6f-9d57-0a1b2c3d4e5f/volumes", "/var/lib/kubelet/pods/2a3f9c0e-2b1d-4c6f-9d57-0a1b2c3d4e5f/volumes"},
		{"a-pod-with-a-name-that-has-forty-three-chars", "a-pod-with-a-name-that-has-forty-three-chars"},
	} {
		if got := string(s.redact([]byte(c.text))); got != c.want {
			t.Errorf("%q became %q, want %q", c.text, got, c.want)
		}
	}
	for _, c := range []struct{ text, want string }{
		{`level=info password=hunter2secret next=1`, `level=info password=[redacted] next=1`},
		{`{"token": "abcdefgh", "n": 1}`, `{"token": "[redacted]", "n": 1}`},
		{`Authorization: Bearer abcdefgh`, `Authorization: Bearer [redacted]`},
		{`privateKey: /etc/strait/keys/1.key`, `privateKey: /etc/strait/keys/1.key`},
		{`Secret b-psk is missing`, `Secret b-psk is missing`},
	} {
		if got := string(s.redactText([]byte(c.text))); got != c.want {
			t.Errorf("a log's %q became %q, want %q", c.text, got, c.want)
		}
	}
}

// FuzzAKeyIsFoundWhereverItStands puts a key into any text.
func FuzzAKeyIsFoundWhereverItStands(f *testing.F) {
	f.Add([]byte("before "), []byte(" after"), byte(1))
	f.Add([]byte(`{"data":{"1.key":"`), []byte(`"}}`), byte(2))
	f.Add([]byte("AAAA/"), []byte("="), byte(3))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----"), []byte(invite), byte(4))
	f.Fuzz(func(t *testing.T, before, after []byte, n byte) {
		s := &scanner{}
		secret := []byte(key(n))
		text := bytes.Join([][]byte{before, secret, after}, nil)
		for _, clean := range []func([]byte) []byte{s.redact, s.redactText} {
			if got := clean(bytes.Clone(text)); bytes.Contains(got, secret) {
				// More letters of base64 right behind it make it another thing.
				if len(after) > 0 && bytes.IndexByte([]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/_-="), after[0]) >= 0 {
					return
				}
				t.Errorf("%q still holds %s: %q", text, secret, got)
			}
		}
		s.addSecret(secret)
		if got := s.redact(bytes.Clone(text)); bytes.Contains(got, secret) {
			t.Errorf("%q still holds %s though it is known", text, secret)
		}
	})
}
