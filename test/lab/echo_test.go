package lab

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"time"
)

// serveEcho returns every datagram to its sender until the socket is closed.
func serveEcho(c *net.UDPConn) {
	buffer := make([]byte, 1<<16)
	for {
		n, from, err := c.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			_, _ = c.WriteToUDPAddrPort(buffer[:n], from) // too big for the path: the client asks again
		}
	}
}

// echo sends payload until it comes back unchanged, at most that often. Datagrams that need path MTU discovery
// are lost until it is done.
func echo(c net.Conn, payload []byte, attempts int) error {
	buffer := make([]byte, 1<<16)
	var last error
	for range attempts {
		if _, last = c.Write(payload); last != nil {
			continue // an ICMP error of the datagram before
		}
		if last = c.SetReadDeadline(time.Now().Add(time.Second)); last != nil {
			return last
		}
		var n int
		if n, last = c.Read(buffer); last != nil {
			continue
		}
		if !bytes.Equal(buffer[:n], payload) {
			return fmt.Errorf("%d bytes came back as %d others", len(payload), n)
		}
		return nil
	}
	return fmt.Errorf("no echo of %d bytes after %d attempts: %w", len(payload), attempts, last)
}
