package config

import (
	"encoding/base64"
	"errors"
)

// Key is the Curve25519 public key of a WireGuard peer. It is printed as base64, so it must never hold a private or
// preshared key.
type Key [32]byte

// ParseKey decodes the base64 form of a key. The error never repeats the text, which may be a misplaced secret.
func ParseKey(text string) (Key, error) {
	var k Key
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || len(b) != len(k) || len(text) != base64.StdEncoding.EncodedLen(len(k)) { // it skips line breaks
		return k, errors.New("is not 32 bytes in base64")
	}
	copy(k[:], b)
	return k, nil
}

// String returns the key in base64, like `wg`.
func (k Key) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// UnmarshalText reads what String writes.
func (k *Key) UnmarshalText(text []byte) (err error) {
	*k, err = ParseKey(string(text))
	return err
}
