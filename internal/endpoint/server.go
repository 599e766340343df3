//go:build linux

package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	connections = 256              // that a server serves at once; more wait
	idle        = 30 * time.Second // how long a connection may be silent
	largest     = 64 << 10         // of a datagram, bytes

	// receiveBuffer is the size in bytes of the buffer of a UDP socket, as far as the kernel permits
	// it (net.core.rmem_max). A datagram that waits while a node has no free CPU time is not lost.
	receiveBuffer = 4 << 20
)

// Server echoes what it receives.
type Server struct {
	tcp net.Listener
	udp []*net.UDPConn
}

// portAttempts is how often a TCP port is chosen whose number may be in use for UDP.
const portAttempts = 20

// Listen opens a TCP and UDP port of all families; 0: any. The caller must call Serve.
func Listen(port uint16) (s *Server, err error) {
	for range portAttempts {
		if s, err = listen(port); port != 0 || !errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	return s, err
}

func listen(port uint16) (*Server, error) {
	tcp, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return nil, fmt.Errorf("echo: %w", err)
	}
	s := &Server{tcp: tcp}
	for _, family := range []string{"udp4", "udp6"} {
		c := net.ListenConfig{Control: control(func(fd int) error {
			return errors.Join(clearDF(fd, family == "udp6"), unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer))
		})}
		one, err := c.ListenPacket(context.Background(), family, fmt.Sprintf(":%d", s.Port()))
		if errors.Is(err, unix.EAFNOSUPPORT) {
			continue // the kernel does not support the family
		}
		if err != nil {
			s.close()
			return nil, fmt.Errorf("echo: %w", err)
		}
		s.udp = append(s.udp, one.(*net.UDPConn))
	}
	return s, nil
}

// Port returns the open port.
func (s *Server) Port() uint16 { return uint16(s.tcp.Addr().(*net.TCPAddr).Port) }

// Serve echoes until ctx ends. It returns an error only if it had to stop earlier.
func (s *Server) Serve(ctx context.Context) error {
	var all sync.WaitGroup
	failed := make(chan error, 1+len(s.udp))
	all.Go(func() { failed <- s.serveTCP(ctx) })
	for _, c := range s.udp {
		all.Go(func() { failed <- serveUDP(c) })
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
	}
	s.close()
	all.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("echo: %w", err)
}

func (s *Server) close() {
	_ = s.tcp.Close()
	for _, c := range s.udp {
		_ = c.Close()
	}
}

func (s *Server) serveTCP(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	room := make(chan struct{}, connections)
	for {
		c, err := s.tcp.Accept()
		if err != nil {
			return err
		}
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer stop()
			echo(c)
		})
	}
}

// echo sends the client's address and then echoes, until either end closes.
func echo(c net.Conn) {
	defer c.Close()
	b := make([]byte, 32<<10)
	from, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return
	}
	putRequest(b, 0)
	putReply(b, from)
	n := headLen
	for err == nil || n > 0 {
		if c.SetDeadline(time.Now().Add(idle)) != nil {
			return
		}
		if _, e := c.Write(b[:n]); e != nil {
			return
		}
		if errors.Is(err, io.EOF) {
			return
		}
		n, err = c.Read(b)
	}
}

func serveUDP(c *net.UDPConn) error {
	b := make([]byte, largest)
	for {
		n, from, err := c.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return err
		}
		if err == nil && putReply(b[:n], from) {
			_, _ = c.WriteToUDPAddrPort(b[:n], from) // if it is lost, the client repeats its request
		}
	}
}
