package daemon

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/crypto/curve25519"
	"golang.zx2c4.com/wireguard/device"

	"strait.dev/strait/config"
)

// keys are the secrets of a gateway. They are read from files, given to
// WireGuard, and go nowhere else: no error, log line or metric holds one.
type keys struct {
	private   device.NoisePrivateKey
	public    config.Key
	preshared []device.NoisePresharedKey // by peer; zero = none
}

// PublicKey is the public half of the private key in a file.
func PublicKey(privateKeyFile string) (public config.Key, err error) {
	private, err := readKey(privateKeyFile)
	if err != nil {
		return public, err
	}
	curve25519.ScalarBaseMult((*[32]byte)(&public), &private)
	return public, nil
}

func readKeys(c *config.Gateway) (*keys, error) {
	k := &keys{preshared: make([]device.NoisePresharedKey, len(c.WireGuard.Peers))}
	raw, err := readKey(c.WireGuard.PrivateKeyFile)
	if err != nil {
		return nil, fmt.Errorf("wireguard.privateKeyFile: %w", err)
	}
	k.private = raw
	curve25519.ScalarBaseMult((*[32]byte)(&k.public), &raw)
	for i, p := range c.WireGuard.Peers {
		if p.PublicKey == k.public {
			return nil, fmt.Errorf("wireguard.peers[%d].publicKey is this gateway's own; give the key of the remote cluster's gateway", i)
		}
		if p.PresharedKeyFile == "" {
			continue
		}
		if k.preshared[i], err = readKey(p.PresharedKeyFile); err != nil {
			return nil, fmt.Errorf("wireguard.peers[%d].presharedKeyFile: %w", i, err)
		}
	}
	return k, nil
}

// readKey reads a file with one key in base64, as "wg genkey" and "wg genpsk"
// write it. The content is never part of the error.
func readKey(path string) (key [32]byte, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return key, fmt.Errorf("%s does not exist; make one with: wg genkey > %s", path, path)
		}
		return key, err
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != len(key) {
		return key, fmt.Errorf("%s does not hold a key: want 32 bytes in base64, as \"wg genkey\" writes them", path)
	}
	copy(key[:], raw)
	if key == [32]byte{} {
		return key, fmt.Errorf("%s holds the zero key; make one with: wg genkey > %s", path, path)
	}
	return key, nil
}
