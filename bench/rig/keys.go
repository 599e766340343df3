package rig

import (
	"crypto/ecdh"
	"crypto/rand"

	"strait.dev/strait/config"
)

// keyPair is the key pair of one WireGuard device.
type keyPair struct {
	private [32]byte
	public  config.Key
}

func newKeyPairs(n int) ([]keyPair, error) {
	pairs := make([]keyPair, n)
	for i := range pairs {
		private, err := ecdh.X25519().GenerateKey(rand.Reader)
		if err != nil {
			return nil, err
		}
		pairs[i] = keyPair{[32]byte(private.Bytes()), config.Key(private.PublicKey().Bytes())}
	}
	return pairs, nil
}
