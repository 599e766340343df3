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
	"strait.dev/strait/internal/smallfile"
)

// keys are the secrets of a gateway. They are read from files and passed to WireGuard only: no error, log line or metric
// contains one.
type keys struct {
	public    config.Key                 // of wireguard.privateKeyFile
	own       []device.NoisePrivateKey   // by peer
	preshared []device.NoisePresharedKey // by peer; zero = none
}

// PublicKey returns the public key of the private key in a file.
func PublicKey(privateKeyFile string) (public config.Key, err error) {
	private, err := readKey(privateKeyFile, genPrivate)
	if err != nil {
		return public, err
	}
	return publicOf(private), nil
}

func readKeys(c *config.Gateway) (*keys, error) {
	w := &c.WireGuard
	k := &keys{
		own:       make([]device.NoisePrivateKey, len(w.Peers)),
		preshared: make([]device.NoisePresharedKey, len(w.Peers)),
	}
	own, err := readOwnKeys(w)
	if err != nil {
		return nil, err
	}
	k.public = own[w.PrivateKeyFile].public
	if err := ownAsPeer(w, own); err != nil {
		return nil, err
	}
	links := make(map[[2]config.Key]int, len(w.Peers))
	for i := range w.Peers {
		p := &w.Peers[i]
		mine := own[w.OwnKeyFile(p)]
		k.own[i] = mine.private
		ends := [2]config.Key{mine.public, p.PublicKey}
		if other, taken := links[ends]; taken {
			return nil, fmt.Errorf("wireguard.peers[%d] has the same two keys as wireguard.peers[%d]; give one of them another key", i, other)
		}
		links[ends] = i
		if p.PresharedKeyFile == "" {
			continue
		}
		if k.preshared[i], err = readKey(p.PresharedKeyFile, genPreshared); err != nil {
			return nil, fmt.Errorf("wireguard.peers[%d].presharedKeyFile: %w", i, err)
		}
	}
	return k, nil
}

// keyPair is one of the gateway's own key pairs.
type keyPair struct {
	private device.NoisePrivateKey
	public  config.Key
}

// readOwnKeys reads each private key file once; the result is by file name.
func readOwnKeys(w *config.WireGuard) (map[string]keyPair, error) {
	own := make(map[string]keyPair)
	read := func(file, field string) error {
		if _, known := own[file]; known {
			return nil
		}
		private, err := readKey(file, genPrivate)
		if err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
		own[file] = keyPair{private, publicOf(private)}
		return nil
	}
	if err := read(w.PrivateKeyFile, "wireguard.privateKeyFile"); err != nil {
		return nil, err
	}
	for i := range w.Peers {
		if err := read(w.OwnKeyFile(&w.Peers[i]), fmt.Sprintf("wireguard.peers[%d].privateKeyFile", i)); err != nil {
			return nil, err
		}
	}
	return own, nil
}

// ownAsPeer returns an error if a peer has one of this gateway's own keys.
func ownAsPeer(w *config.WireGuard, own map[string]keyPair) error {
	public := make(map[config.Key]bool, len(own))
	for _, k := range own {
		public[k.public] = true
	}
	for i, p := range w.Peers {
		if public[p.PublicKey] {
			return fmt.Errorf("wireguard.peers[%d].publicKey is this gateway's own; give the key of the remote cluster's gateway", i)
		}
	}
	return nil
}

func publicOf(private [32]byte) (public config.Key) {
	curve25519.ScalarBaseMult((*[32]byte)(&public), &private)
	return public
}

// Commands that write the two kinds of keys.
const (
	genPrivate   = "wg genkey"
	genPreshared = "wg genpsk"
)

// readKey reads a file with one key in base64, as the command generator writes it. The contents are never part of the error.
func readKey(path, generator string) (key [32]byte, err error) {
	text, err := smallfile.Read(path, smallfile.Key)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return key, fmt.Errorf("%s does not exist; make one with: %s > %s", path, generator, path)
		}
		return key, wrongFile(err, path, "name the file with the key")
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(raw) != len(key) {
		return key, fmt.Errorf("%s does not hold a key: want 32 bytes in base64, as %q writes them", path, generator)
	}
	copy(key[:], raw)
	if key == [32]byte{} {
		return key, fmt.Errorf("%s holds the zero key; make one with: %s > %s", path, generator, path)
	}
	return key, nil
}
