package relay

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"syscall"
)

// udpTarget is a Target on the gateway's machine. Its socket is not connected: a connected one receives from one port
// only, and load balancers in the kernel that translate addresses at sockets, such as Cilium's for ClusterIPs, translate
// back only answers to unconnected ones.
type udpTarget struct {
	conn    net.PacketConn
	raw     syscall.RawConn
	address netip.Addr
	last    atomic.Uint32 // the port to which the last datagram was sent
}

// errForeign is the error of a datagram from another address than the target's, which is dropped.
var errForeign = errors.New("from another address")

func newUDPTarget(address netip.Addr) (Target, error) {
	network, level, option := "udp4", syscall.IPPROTO_IP, syscall.IP_RECVERR
	if address.Is6() {
		network, level, option = "udp6", syscall.IPPROTO_IPV6, syscall.IPV6_RECVERR
	}
	c, err := net.ListenPacket(network, ":0")
	if err != nil {
		return nil, err
	}
	raw, err := c.(*net.UDPConn).SyscallConn()
	if err == nil { // without the option, only connected sockets report ICMP errors
		failed := raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), level, option, 1) })
		if failed != nil {
			err = failed
		}
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return &udpTarget{conn: c, raw: raw, address: address}, nil
}

func (t *udpTarget) Close() error { return t.conn.Close() }

func (t *udpTarget) Send(b []byte, port uint16) (err error) {
	t.last.Store(uint32(port))
	var to syscall.Sockaddr
	if t.address.Is4() {
		to = &syscall.SockaddrInet4{Addr: t.address.As4(), Port: int(port)}
	} else {
		to = &syscall.SockaddrInet6{Addr: t.address.As16(), Port: int(port)}
	}
	closed := t.raw.Write(func(fd uintptr) bool {
		// The socket first reports an ICMP error about an earlier datagram, which Receive handles.
		for range 2 {
			if err = syscall.Sendto(int(fd), b, syscall.MSG_DONTWAIT, to); err == nil || err == syscall.EAGAIN {
				break
			}
		}
		return true
	})
	if closed != nil {
		return closed
	}
	return err
}

func (t *udpTarget) Receive() (b *Buffer, n int, port uint16, err error) {
	closed := t.raw.Read(func(fd uintptr) bool {
		b = takeBuffer()
		if n, port, err = t.next(int(fd), b[:]); !errors.Is(err, syscall.EAGAIN) {
			return true
		}
		giveBuffer(b)
		b = nil
		return false
	})
	if closed != nil {
		return nil, 0, 0, closed
	}
	return b, n, port, err
}

// next returns a datagram of the target or an ICMP error; EAGAIN if there is none.
func (t *udpTarget) next(fd int, b []byte) (n int, port uint16, err error) {
	for {
		n, from, err := syscall.Recvfrom(fd, b, syscall.MSG_DONTWAIT)
		switch {
		case err == nil:
			a := endpointOf(from)
			if a.Addr() != t.address {
				return 0, 0, errForeign
			}
			return n, a.Port(), nil
		case err == syscall.EAGAIN: // a sender may have consumed the notice of an error
			return t.nextError(fd, b)
		case err != syscall.EINTR:
			if n, port, err := t.nextError(fd, b); !errors.Is(err, syscall.EAGAIN) {
				return n, port, err
			}
		}
	}
}

// nextError returns the next ICMP error: the length of what it quotes of a datagram, and the port to which that was sent.
func (t *udpTarget) nextError(fd int, b []byte) (n int, port uint16, err error) {
	var control [256]byte
	n, length, _, to, err := syscall.Recvmsg(fd, b, control[:], syscall.MSG_ERRQUEUE|syscall.MSG_DONTWAIT)
	if err != nil {
		return 0, 0, err
	}
	port = uint16(t.last.Load())
	if a := endpointOf(to); a.Addr() == t.address { // else it was translated, at the socket
		port = a.Port()
	}
	messages, err := syscall.ParseSocketControlMessage(control[:length])
	if err != nil || len(messages) == 0 || len(messages[0].Data) < 4 {
		return n, port, syscall.EPROTO
	}
	return n, port, syscall.Errno(binary.NativeEndian.Uint32(messages[0].Data)) // struct sock_extended_err
}

func endpointOf(a syscall.Sockaddr) netip.AddrPort {
	switch a := a.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *syscall.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr), uint16(a.Port))
	}
	return netip.AddrPort{}
}
