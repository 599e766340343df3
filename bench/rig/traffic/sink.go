//go:build linux

package traffic

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	datagrams "strait.dev/strait/bench/traffic"
	"strait.dev/strait/underlay"
)

// readSize is the size of one read of a stream, bytes.
const readSize = 256 << 10

type sink struct {
	stream, datagrams, bytes atomic.Int64
	sockets                  []*underlay.Socket
}

func (s *sink) listenTCP() error {
	return acceptEach(portTCPSink, func(c net.Conn) {
		buffer := make([]byte, readSize)
		for {
			n, err := c.Read(buffer)
			s.stream.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
}

// listenUDP opens a socket like a pod's: many datagrams per system call, but no GRO.
func (s *sink) listenUDP() error {
	return s.listenDatagrams(portUDPSink, underlay.Options{DisableGRO: true})
}

func (s *sink) listenTunnel() error { return s.listenDatagrams(portTunnel, underlay.Options{}) }

func (s *sink) listenDatagrams(port uint16, o underlay.Options) error {
	for _, all := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		socket, err := underlay.Listen(netip.AddrPortFrom(all, port), o)
		if errors.Is(err, unix.EAFNOSUPPORT) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return err
		}
		s.sockets = append(s.sockets, socket)
		// It counts until the process ends.
		if _, err := datagrams.Listen(socket, func(d []byte, _ netip.AddrPort) {
			s.datagrams.Add(1)
			s.bytes.Add(int64(len(d)))
		}); err != nil {
			return err
		}
	}
	return nil
}

// Count returns what has arrived so far.
func (e *End) Count(_ Nothing, c *Count) error {
	*c = Count{At: monotonic(), Stream: e.sink.stream.Load(), Datagrams: e.sink.datagrams.Load(), Bytes: e.sink.bytes.Load()}
	for _, s := range e.sink.sockets {
		c.Overflows += s.Overflows()
	}
	return nil
}

// monotonic reads the clock that all processes of a machine share.
func monotonic() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // fails only for unknown clocks
	return time.Duration(t.Nano())
}

func echoTCP() error {
	return acceptEach(portTCPEcho, func(c net.Conn) { _, _ = io.Copy(struct{ io.Writer }{c}, struct{ io.Reader }{c}) })
}

// acceptEach serves every connection to a port on its own goroutine.
func acceptEach(port int, serve func(net.Conn)) error {
	l, err := net.Listen("tcp", listenAll(port))
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return nil
}

func echoUDP() error {
	c, err := net.ListenUDP("udp", &net.UDPAddr{Port: portUDPEcho})
	if err != nil {
		return err
	}
	go func() {
		buffer := make([]byte, 2048)
		for {
			n, from, err := c.ReadFromUDPAddrPort(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				_, _ = c.WriteToUDPAddrPort(buffer[:n], from) // may be lost like any datagram
			}
		}
	}()
	return nil
}
