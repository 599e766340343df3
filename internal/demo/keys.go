package demo

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"

	"strait.dev/strait/config"
)

// makeKey generates a WireGuard key pair for one run and writes the private key
// to a file with mode 0600, as a gateway requires.
func makeKey(file string) (public config.Key, err error) {
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return public, fmt.Errorf("generate a key: %w", err)
	}
	text := base64.StdEncoding.EncodeToString(private.Bytes()) + "\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return public, fmt.Errorf("write the key of this run: %w", err)
	}
	return config.Key(private.PublicKey().Bytes()), nil
}
