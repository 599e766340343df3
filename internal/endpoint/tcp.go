//go:build linux

package endpoint

import (
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// dial connects to an echo server and reads the address that it saw.
func (c Check) dial(ctx context.Context) (net.Conn, Result) {
	r := Result{ID: c.ID}
	begin := time.Now()
	dialer := net.Dialer{Timeout: fresh, Control: control(func(fd int) error { return reportErrors(fd, c.To.Addr().Is6()) })}
	conn, err := dialer.DialContext(ctx, "tcp", c.To.String())
	if err != nil {
		return nil, r.failed(because(err), err.Error())
	}
	r.RTT = time.Since(begin)
	if r = readHead(ctx, conn, r); r.Failure != "" {
		_ = conn.Close()
		return nil, r
	}
	return conn, r
}

// readHead reads the first data of a server, until ctx ends.
func readHead(ctx context.Context, conn net.Conn, r Result) Result {
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })() // fails only on a closed socket
	var head [headLen]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return r.failed(because(err), fmt.Sprintf("connected, but received nothing: %v", err))
	}
	from, _, ok := parseReply(head[:])
	if !ok {
		return r.failed(Corrupted, "the server is not an echo server of Strait")
	}
	r.Source = from.Addr()
	return r
}

// tcp sends the payload over a new connection and compares what comes back.
func (c Check) tcp(ctx context.Context, m Marker) Result {
	conn, r := c.dial(ctx)
	if conn == nil {
		return r
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	sent := make(chan error, 1)
	go func() { sent <- send(conn, m, c.Size) }()
	b := make([]byte, 32<<10)
	for r.Bytes < int64(c.Size) {
		n, err := conn.Read(b[:min(len(b), c.Size-int(r.Bytes))])
		if at := m.wrong(b[:n], r.Bytes); at >= 0 {
			return r.failed(Corrupted, fmt.Sprintf("byte %d of %d came back changed", r.Bytes+int64(at), c.Size))
		}
		r.Bytes += int64(n)
		if err != nil {
			return r.failed(because(err), fmt.Sprintf("%d of %d bytes came back: %v", r.Bytes, c.Size, err))
		}
	}
	<-sent //nolint:errcheck // everything has come back, so sending has ended
	r.MSS = mss(conn)
	return c.checkSource(r)
}

func send(to io.Writer, m Marker, size int) error {
	b := make([]byte, 32<<10)
	for at := 0; at < size; {
		part := b[:min(len(b), size-at)]
		m.fill(part, int64(at))
		n, err := to.Write(part)
		if at += n; err != nil {
			return err
		}
	}
	return nil
}

// mss returns the largest segment that a connection sends, in bytes; 0: unknown.
func mss(c net.Conn) (size int) {
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { size, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG) })
	return size
}
