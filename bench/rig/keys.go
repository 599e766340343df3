package rig

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
)

// keyPair is a Curve25519 key pair as WireGuard writes it, in base64.
type keyPair struct{ private, public string }

func newKeyPair() (keyPair, error) {
	private := make([]byte, 32)
	if _, err := rand.Read(private); err != nil {
		return keyPair{}, err
	}
	private[0] &= 248
	private[31] = private[31]&127 | 64
	key, err := ecdh.X25519().NewPrivateKey(private)
	if err != nil {
		return keyPair{}, err
	}
	text := base64.StdEncoding.EncodeToString
	return keyPair{text(private), text(key.PublicKey().Bytes())}, nil
}

// newKeyPairs makes the keys of both sides.
func newKeyPairs() (pairs [2]keyPair, err error) {
	for i := range pairs {
		if pairs[i], err = newKeyPair(); err != nil {
			return pairs, err
		}
	}
	return pairs, nil
}

// folder makes a folder for files of one gateway, which every user may enter.
func (r *Rig) folder(t *topology, s *site) (string, error) {
	dir := filepath.Join(r.dir, fmt.Sprintf("%s-%s", t.subject, s.name))
	return dir, os.MkdirAll(dir, 0o755)
}
