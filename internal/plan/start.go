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

// NewKey generates a key pair, and writes the private key to a file with mode 0600.
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

// FreeUDP returns a UDP port that is free on all addresses at the moment.
func FreeUDP() (uint16, error) {
	s, err := net.ListenUDP("udp", nil)
	if err != nil {
		return 0, fmt.Errorf("find a free UDP port: %w", err)
	}
	defer s.Close()
	return s.LocalAddr().(*net.UDPAddr).AddrPort().Port(), nil
}

// Retry calls start again when another process has taken one of its free ports.
func Retry(start func() error) (err error) {
	for range 10 {
		if err = start(); !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return err
}
