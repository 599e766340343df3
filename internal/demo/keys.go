package demo

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"

	"strait.dev/strait/config"
)

// makeKey makes a WireGuard key pair for one run: the private key goes to a file
// that only this user can read, as a gateway wants it.
func makeKey(file string) (public config.Key, err error) {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return public, fmt.Errorf("make a key: %w", err)
	}
	text := base64.StdEncoding.EncodeToString(private.Bytes()) + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return public, fmt.Errorf("keep a key for this run: %w", err)
	}
	return config.Key(private.PublicKey().Bytes()), nil
}
