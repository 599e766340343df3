package lab

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"strait.dev/strait/test/wait"
)

// ServeEcho returns every datagram to its sender until the socket is closed.
func ServeEcho(c *net.UDPConn) {
	buffer := make([]byte, 1<<16)
	for {
		n, from, err := c.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = c.WriteToUDPAddrPort(buffer[:n], from) // too big for the path: the client sends again
		}
	}
}

// Echo sends a datagram that must come back unchanged.
func Echo(t *testing.T, c net.Conn, payload []byte) error {
	t.Helper()
	return EchoAfterErrors(t, c, payload, nil, 0)
}

// EchoAfterErrors is echo, but repeats the datagram after each ICMP error about it or, in
// refused, about the reply, up to a limit: at a hop whose path MTU must be learned a
// datagram is lost, and its sender gets an error.
func EchoAfterErrors(t *testing.T, c net.Conn, payload []byte, refused *Capture, limit int) error {
	t.Helper()
	buffer := make([]byte, 1<<16)
	var last error
	for range limit + 1 {
		before := refused.Count()
		if _, last = c.Write(payload); last != nil {
			continue // the error about the previous datagram
		}
		var n int
		wait.Until(t, fmt.Sprintf("an echo of %d bytes or an ICMP error has come back", len(payload)), func() bool {
			if last = c.SetReadDeadline(time.Now().Add(Pause)); last == nil {
				n, last = c.Read(buffer)
			}
			return !errors.Is(last, os.ErrDeadlineExceeded) || refused.Count() > before
		})
		if last != nil {
			continue
		}
		if !bytes.Equal(buffer[:n], payload) {
			return fmt.Errorf("%d bytes came back as %d different bytes", len(payload), n)
		}
		return nil
	}
	return fmt.Errorf("no echo of %d bytes after %d ICMP errors: %w", len(payload), limit+1, last)
}
