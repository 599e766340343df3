//go:build linux

package endpoint

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// gatewayHop is the hop limit with which a gateway discards a flow's datagram. The node is
// before it, and a gateway of the remote cluster after it.
const gatewayHop = 2

// writeLimited sends a datagram that is discarded after so many routers, at most.
func (s *socket) writeLimited(b []byte, hops int, v6 bool) error {
	level, option := unix.IPPROTO_IP, unix.IP_TTL
	if v6 {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT
	}
	control := make([]byte, unix.CmsgSpace(4))
	binary.NativeEndian.PutUint64(control, uint64(unix.CmsgLen(4))) // unix.Cmsghdr, of 64-bit machines
	binary.NativeEndian.PutUint32(control[8:], uint32(level))
	binary.NativeEndian.PutUint32(control[12:], uint32(option))
	binary.NativeEndian.PutUint32(control[unix.CmsgLen(0):], uint32(hops))
	raw, err := s.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.Sendmsg(int(fd), b, control, nil, 0) }); err != nil {
		return err
	}
	return failed
}

// discarded is a router that discarded a datagram because its hop limit was exceeded.
type discarded struct {
	by   netip.Addr
	sent []byte // the datagram, or its beginning
}

// discards returns the new routers that the kernel reports.
func (s *socket) discards() (all []discarded) {
	raw, err := s.SyscallConn()
	if err != nil {
		return nil
	}
	sent, control := make([]byte, largest), make([]byte, 512)
	_ = raw.Control(func(fd uintptr) {
		for {
			n, controls, _, _, err := unix.Recvmsg(int(fd), sent, control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
			if err != nil {
				return // the queue is empty
			}
			messages, err := unix.ParseSocketControlMessage(control[:controls])
			if err != nil {
				continue
			}
			for _, m := range messages {
				if by, ok := exceeded(m); ok {
					all = append(all, discarded{by, append([]byte(nil), sent[:n]...)})
				}
			}
		}
	})
	return all
}

// exceeded returns the sender of an ICMP error, if the hop limit was exceeded (RFC 792, RFC
// 4443). The message has the kernel's struct sock_extended_err and the sender's address.
func exceeded(m unix.SocketControlMessage) (by netip.Addr, ok bool) {
	const v4At, v6At = 16 + 4, 16 + 8 // of the address in struct sockaddr, after struct sock_extended_err
	if len(m.Data) < v4At {
		return by, false
	}
	origin, kind, code := m.Data[4], m.Data[5], m.Data[6]
	switch {
	case m.Header.Type == unix.IP_RECVERR && m.Header.Level == unix.IPPROTO_IP:
		if origin == unix.SO_EE_ORIGIN_ICMP && kind == 11 && code == 0 && len(m.Data) >= v4At+4 {
			return netip.AddrFrom4([4]byte(m.Data[v4At:])), true
		}
	case m.Header.Type == unix.IPV6_RECVERR && m.Header.Level == unix.IPPROTO_IPV6:
		if origin == unix.SO_EE_ORIGIN_ICMP6 && kind == 3 && code == 0 && len(m.Data) >= v6At+16 {
			return netip.AddrFrom16([16]byte(m.Data[v6At:])), true
		}
	}
	return by, false
}
