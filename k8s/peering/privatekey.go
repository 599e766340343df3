package peering

import (
	"encoding/base64"
	"fmt"
	"io"
)

// NewPrivateKey returns a WireGuard private key of 32 random bytes, in base64, as `wg
// genkey` does: clamped for Curve25519 (RFC 7748, section 5).
func NewPrivateKey(random io.Reader) (string, error) {
	var key [32]byte
	if _, err := io.ReadFull(random, key[:]); err != nil {
		return "", fmt.Errorf("generate a key: %w", err)
	}
	key[0] &= 248
	key[31] = key[31]&127 | 64
	return base64.StdEncoding.EncodeToString(key[:]), nil
}
