package rig

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
)

// key is a Curve25519 key.
type key [32]byte

// String returns the key in base64, as in WireGuard's tools and Strait's files.
func (k key) String() string { return base64.StdEncoding.EncodeToString(k[:]) }

// keyPair is the key pair of one WireGuard device.
type keyPair struct{ private, public key }

func newKeyPair() (keyPair, error) {
	var private key
	if _, err := rand.Read(private[:]); err != nil {
		return keyPair{}, err
	}
	private[0] &= 248
	private[31] = private[31]&127 | 64
	pair, err := ecdh.X25519().NewPrivateKey(private[:])
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{private, key(pair.PublicKey().Bytes())}, nil
}

// newKeyPairs generates the keys of both sides.
func newKeyPairs() (pairs [2]keyPair, err error) {
	for i := range pairs {
		if pairs[i], err = newKeyPair(); err != nil {
			return pairs, err
		}
	}
	return pairs, nil
}

// folder creates a directory for the files of one gateway, which every user may enter.
func (r *Rig) folder(t *topology, s *site) (string, error) {
	dir := filepath.Join(r.dir, fmt.Sprintf("%s-%s", t.subject, s.name))
	return dir, os.MkdirAll(dir, 0o755)
}
