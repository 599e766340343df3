package demo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"

	"strait.dev/strait/internal/plan"
)

const (
	transferChunk = 64 << 10 // bytes
	transferPort  = 5001
)

// transfer sends a stream from pod a to pod b over TCP. Pod b replies with the
// hash of the received bytes.
func (d *Demo) transfer(ctx context.Context, s *Step) error {
	listener, err := d.b.pod.listenTCP(netip.AddrPortFrom(d.b.Address[plan.V4], transferPort))
	if err != nil {
		return err
	}
	received := make(chan error, 1)
	go func() { received <- receive(ctx, listener, d.size) }()
	defer func() {
		listener.Close()
		<-received //nolint:errcheck // the transfer itself reports its error
	}()

	begin := time.Now()
	connection, err := d.a.pod.dialTCP(ctx, netip.AddrPortFrom(d.b.PodSeen[plan.V4], transferPort))
	if err != nil {
		return err
	}
	defer connection.Close()
	defer context.AfterFunc(ctx, func() { _ = connection.SetDeadline(time.Now()) })()
	sent, err := send(connection, d.size)
	if err != nil {
		return fmt.Errorf("%w while sending", err)
	}
	arrived, err := io.ReadAll(io.LimitReader(connection, sha256.Size))
	if err != nil {
		return fmt.Errorf("%w while waiting for the hash", err)
	}
	took := time.Since(begin)
	if !bytes.Equal(sent, arrived) {
		return &mismatch{fmt.Sprintf("SHA-256 %x of the data that pod a sent", sent), fmt.Sprintf("%x of the data that pod b received", arrived)}
	}
	s.Summary = fmt.Sprintf("%d MiB from pod a to pod b over TCP in %s, SHA-256 matches", d.size>>20, seconds(took.Seconds()))
	s.Figure = &Figure{"rate", float64(d.size) / took.Seconds(), "B/s"}
	return nil
}

// send writes the stream, which is identical in every run, and returns its hash.
func send(to net.Conn, size int) ([]byte, error) {
	source := rand.NewChaCha8([32]byte{})
	hash := sha256.New()
	chunk := make([]byte, transferChunk)
	for range size / transferChunk {
		_, _ = source.Read(chunk) // never fails
		hash.Write(chunk)
		if _, err := to.Write(chunk); err != nil {
			return nil, err
		}
	}
	return hash.Sum(nil), nil
}

// receive accepts one connection and replies to the stream with its hash.
func receive(ctx context.Context, listener net.Listener, size int) error {
	connection, err := listener.Accept()
	if err != nil {
		return err
	}
	defer connection.Close()
	defer context.AfterFunc(ctx, func() { _ = connection.SetDeadline(time.Now()) })()
	hash := sha256.New()
	if _, err := io.CopyBuffer(hash, io.LimitReader(connection, int64(size)), make([]byte, transferChunk)); err != nil {
		return err
	}
	_, err = connection.Write(hash.Sum(nil))
	return err
}
