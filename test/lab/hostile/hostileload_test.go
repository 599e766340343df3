//go:build lab || nightly

package hostile

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/test/lab"
)

// bulkTOS marks the packets of the transfer (with an otherwise unused DSCP), so that the
// watchers, which inspect every other packet, skip them.
const bulkTOS = 0x48

// bulkPort is the port of the transfer.
const bulkPort = 5001

// load is one TCP stream between the pods that lasts as long as all attacks. Both ends
// compute the SHA-256 of its bytes; finish compares them.
type load struct {
	name     string
	port     uint16       // of the sender
	received atomic.Int64 // bytes
	rate     atomic.Int64 // limit in bytes per second; 0: none
	stop     chan struct{}
	result   chan error
}

// startLoad starts a stream in a direction, without a limit.
func startLoad(t *testing.T, w lab.Direction, seed uint64) *load {
	t.Helper()
	ld := &load{name: w.Name(), stop: make(chan struct{}), result: make(chan error, 1)}
	listener := w.To.ListenTCP(t, netip.AddrPortFrom(w.Real, bulkPort))
	out := w.From.Dial(t, "tcp", netip.AddrPortFrom(w.Seen, bulkPort))
	ld.port = out.LocalAddr().(*net.TCPAddr).AddrPort().Port()
	in, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	for _, c := range []net.Conn{out, in} {
		if err := lab.Control(c.(*net.TCPConn), func(fd int) error { return markBulk(fd, w.Src.Is4()) }); err != nil {
			t.Fatal(err)
		}
	}
	go ld.receive(in)
	go func() { ld.result <- ld.send(out, seed) }()
	return ld
}

func markBulk(fd int, v4 bool) error {
	if v4 {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_TOS, bulkTOS)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_TCLASS, bulkTOS)
}

// receive replies to the end of the stream with the digest of the received bytes.
func (ld *load) receive(c net.Conn) {
	digest, buffer := sha256.New(), make([]byte, 256<<10)
	for {
		n, err := c.Read(buffer)
		digest.Write(buffer[:n])
		ld.received.Add(int64(n))
		if errors.Is(err, io.EOF) {
			_, _ = c.Write(digest.Sum(nil)) // on failure the sender misses it
		}
		if err != nil {
			_ = c.Close()
			return
		}
	}
}

// send sends pseudo-random bytes at the rate until it is stopped, and compares digests.
func (ld *load) send(c net.Conn, seed uint64) error {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	source, digest := rand.NewChaCha8(key), sha256.New()
	chunk := make([]byte, 32<<10)
	next := time.Now()
	for {
		select {
		case <-ld.stop:
			return ld.compare(c, digest.Sum(nil))
		default:
		}
		if rate := ld.rate.Load(); rate > 0 {
			next = next.Add(time.Duration(len(chunk)) * time.Second / time.Duration(rate))
			if ahead := time.Until(next); ahead > 0 {
				time.Sleep(ahead)
			} else if ahead < -100*time.Millisecond {
				next = time.Now().Add(-100 * time.Millisecond) // lost time is not made up
			}
		}
		_, _ = source.Read(chunk) // never fails
		digest.Write(chunk)
		if _, err := c.Write(chunk); err != nil {
			return fmt.Errorf("%s: %w", ld.name, err)
		}
	}
}

func (ld *load) compare(c net.Conn, want []byte) error {
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return fmt.Errorf("%s: %w", ld.name, err)
	}
	got, err := io.ReadAll(c)
	if err != nil {
		return fmt.Errorf("%s: digest: %w", ld.name, err)
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%s: %d bytes arrived changed: SHA-256 %x, want %x", ld.name, ld.received.Load(), got, want)
	}
	return nil
}

// finish ends the stream and fails the test unless every byte arrived unchanged.
func (ld *load) finish(t *testing.T) {
	t.Helper()
	close(ld.stop)
	if err := <-ld.result; err != nil {
		t.Error(err)
	} else {
		t.Logf("%s: %d MiB in one stream, SHA-256 equal at both ends", ld.name, ld.received.Load()>>20)
	}
}
