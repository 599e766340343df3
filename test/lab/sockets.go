package lab

import (
	"net"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// ListenTCP listens inside n until the test ends.
func (n *Namespace) ListenTCP(t *testing.T, at netip.AddrPort) net.Listener {
	t.Helper()
	var l *net.TCPListener
	err := n.In(func() (err error) {
		l, err = net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
		return err
	})
	if err != nil {
		t.Fatalf("in %s: %v", n.Role, err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// ListenUDP opens a UDP socket inside n until the test ends.
func (n *Namespace) ListenUDP(t *testing.T, at netip.AddrPort) *net.UDPConn {
	t.Helper()
	var c *net.UDPConn
	err := n.In(func() (err error) {
		c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		return err
	})
	if err != nil {
		t.Fatalf("in %s: %v", n.Role, err)
	}
	t.Cleanup(func() { c.Close() })
	// A burst must not be lost here: 4 MiB, above rmem_max if the kernel's limit is lower.
	if err := Control(c, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20)
	}); err != nil {
		t.Fatal(err)
	}
	return c
}

// Dial connects from inside n; the connection is closed when the test ends.
func (n *Namespace) Dial(t *testing.T, network string, to netip.AddrPort) net.Conn {
	t.Helper()
	var c net.Conn
	err := n.In(func() (err error) {
		c, err = net.Dial(network, to.String())
		return err
	})
	if err != nil {
		t.Fatalf("in %s: %v", n.Role, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Control runs f on the descriptor of a socket.
func Control(c interface {
	SyscallConn() (syscall.RawConn, error)
}, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := raw.Control(func(fd uintptr) { result = f(int(fd)) }); err != nil {
		return err
	}
	return result
}

// ListenRaw opens a raw socket, network being "ip4:NUMBER" or "ip6:NUMBER".
func (n *Namespace) ListenRaw(t *testing.T, network, address string) net.PacketConn {
	t.Helper()
	var c net.PacketConn
	err := n.In(func() (err error) {
		c, err = net.ListenPacket(network, address)
		return err
	})
	if err != nil {
		t.Fatalf("in %s: %v", n.Role, err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// AcceptedFrom accepts one connection and returns its source.
func AcceptedFrom(t *testing.T, l net.Listener) netip.Addr {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
}
