package plan

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"strait.dev/strait/config"
)

// NewKey generates a WireGuard key pair and writes the private key to a file with mode 0600, as a
// gateway requires.
func NewKey(file string) (public config.Key, err error) {
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

// FreeUDP returns a UDP port that no process uses at the moment, on any address.
// Another process may take it before the caller does.
func FreeUDP() (uint16, error) {
	s, err := net.ListenUDP("udp", nil)
	if err != nil {
		return 0, fmt.Errorf("find a free UDP port: %w", err)
	}
	defer s.Close()
	return s.LocalAddr().(*net.UDPAddr).AddrPort().Port(), nil
}

// Retry calls start, which opens free ports, until another process has not taken one of them
// meanwhile; ten times at most.
func Retry(start func() error) (err error) {
	for range 10 {
		if err = start(); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return err
}
