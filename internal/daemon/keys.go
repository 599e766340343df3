package daemon

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"slices"
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

// keyFile is a file with a key that a configuration names.
type keyFile struct {
	field     string // the first one that names it
	path      string
	generator string // the command that writes such a key
}

// keyFiles returns the key files of a configuration, each once.
func keyFiles(w *config.WireGuard) (files []keyFile) {
	add := func(f keyFile) {
		if f.path != "" && !slices.ContainsFunc(files, func(other keyFile) bool { return other.path == f.path }) {
			files = append(files, f)
		}
	}
	add(keyFile{"wireguard.privateKeyFile", w.PrivateKeyFile, genPrivate})
	for i := range w.Peers {
		field := fmt.Sprintf("wireguard.peers[%d].", i)
		add(keyFile{field + "privateKeyFile", w.Peers[i].PrivateKeyFile, genPrivate})
		add(keyFile{field + "presharedKeyFile", w.Peers[i].PresharedKeyFile, genPreshared})
	}
	return files
}

// CheckKeys reads every key file of a configuration, which must be valid. The error has a
// line for each file that cannot be used, and otherwise is that of a start of the gateway
// with these keys. Warnings are for key files that other users of the machine can read.
func CheckKeys(c *config.Gateway) (warnings []string, err error) {
	var failed []error
	for _, f := range keyFiles(&c.WireGuard) {
		if _, err := readKey(f.path, f.generator); err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", f.field, err))
		} else if info, err := os.Stat(f.path); err == nil && info.Mode().Perm()&0o077 != 0 {
			warnings = append(warnings, fmt.Sprintf("%s: %s has mode %04o, with which other users can access the key; run: chmod 600 %s", f.field, f.path, info.Mode().Perm(), f.path))
		}
	}
	if len(failed) > 0 {
		return warnings, errors.Join(failed...)
	}
	_, err = readKeys(c)
	return warnings, err
}

func readKeys(c *config.Gateway) (*keys, error) {
	w := &c.WireGuard
	read := map[string][32]byte{"": {}} // by path
	for _, f := range keyFiles(w) {
		key, err := readKey(f.path, f.generator)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.field, err)
		}
		read[f.path] = key
	}
	public := map[string]config.Key{w.PrivateKeyFile: publicOf(read[w.PrivateKeyFile])} // own ones, by path of the private key
	for i := range w.Peers {
		file := w.OwnKeyFile(&w.Peers[i])
		if _, known := public[file]; !known {
			public[file] = publicOf(read[file])
		}
	}
	own := make(map[config.Key]bool, len(public))
	for _, key := range public {
		own[key] = true
	}
	k := &keys{
		public:    public[w.PrivateKeyFile],
		own:       make([]device.NoisePrivateKey, len(w.Peers)),
		preshared: make([]device.NoisePresharedKey, len(w.Peers)),
	}
	links := make(map[[2]config.Key]int, len(w.Peers))
	for i := range w.Peers {
		p := &w.Peers[i]
		if own[p.PublicKey] {
			return nil, fmt.Errorf("wireguard.peers[%d].publicKey is this gateway's own; give the key of the remote cluster's gateway", i)
		}
		file := w.OwnKeyFile(p)
		ends := [2]config.Key{public[file], p.PublicKey}
		if other, taken := links[ends]; taken {
			return nil, fmt.Errorf("wireguard.peers[%d] has the same two keys as wireguard.peers[%d]; give one of them another key", i, other)
		}
		links[ends] = i
		k.own[i], k.preshared[i] = read[file], read[p.PresharedKeyFile]
	}
	return k, nil
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
