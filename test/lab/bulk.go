package lab

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"
)

// TransferBytes is the size of the large transfer, from LAB_TRANSFER_MIB.
func TransferBytes(t *testing.T) int64 {
	t.Helper()
	mib := 256
	if given := os.Getenv("LAB_TRANSFER_MIB"); given != "" {
		var err error
		if mib, err = strconv.Atoi(given); err != nil || mib < 1 {
			t.Fatalf("LAB_TRANSFER_MIB is %q, not a number of MiB", given)
		}
	}
	return int64(mib) << 20
}

// Transfer sends size bytes over that many TCP streams to a listener, and fails unless
// every byte arrives unchanged: the receiver replies to each stream with the SHA-256 of the
// received bytes.
func Transfer(t *testing.T, from *Namespace, to net.Listener, dst netip.AddrPort, size int64, streams int) {
	t.Helper()
	StartTransfer(t, from, to, dst, size, streams)()
}

// StartTransfer runs transfer in the background; finish waits for it and checks the result.
func StartTransfer(t *testing.T, from *Namespace, to net.Listener, dst netip.AddrPort, size int64, streams int) (finish func()) {
	t.Helper()
	go ServeDigests(to)
	started, results := time.Now(), make(chan error, streams)
	for i := range streams {
		c := from.Dial(t, "tcp", dst)
		go func() { results <- SendChecked(c, uint64(i), size/int64(streams)) }()
	}
	return func() {
		t.Helper()
		for range streams {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		took := time.Since(started).Seconds()
		t.Logf("%d MiB over %d streams in %.1f s: %.2f Gbit/s", size>>20, streams, took, float64(size*8)/1e9/took)
	}
}

// ServeDigests replies to every stream with the digest of its bytes until the listener is
// closed.
func ServeDigests(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			digest := sha256.New()
			if _, err := io.Copy(digest, c); err == nil {
				_, _ = c.Write(digest.Sum(nil)) // on failure the sender misses it
			}
		}()
	}
}

// SendChecked sends size pseudo-random bytes and compares digests.
func SendChecked(c net.Conn, seed uint64, size int64) error {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	digest := sha256.New()
	if _, err := io.CopyBuffer(io.MultiWriter(c, digest),
		io.LimitReader(rand.NewChaCha8(key), size), make([]byte, 256<<10)); err != nil {
		return fmt.Errorf("stream %d: %w", seed, err)
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return fmt.Errorf("stream %d: %w", seed, err)
	}
	received, err := io.ReadAll(c)
	if err != nil {
		return fmt.Errorf("stream %d: digest: %w", seed, err)
	}
	if !bytes.Equal(received, digest.Sum(nil)) {
		return fmt.Errorf("stream %d: %d bytes arrived changed: SHA-256 %x, want %x", seed, size, received, digest.Sum(nil))
	}
	return nil
}
