//go:build linux

package endpoint

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// socket sends datagrams to one address, with deadlines.
type socket struct {
	*os.File
	raw bool // a raw socket, without the kernel's ping support
}

// open opens a socket for a check. ICMP uses a ping socket if the group of this process is
// permitted (sysctl net.ipv4.ping_group_range), otherwise a raw one.
func (c Check) open() (*socket, error) {
	family, protocol := unix.AF_INET, unix.IPPROTO_ICMP
	if c.To.Addr().Is6() {
		family, protocol = unix.AF_INET6, unix.IPPROTO_ICMPV6
	}
	if c.Protocol == UDP {
		protocol = unix.IPPROTO_UDP
	}
	const flags = unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	raw := false
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|flags, protocol)
	if c.Protocol == ICMP && (errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM)) {
		raw = true
		fd, err = unix.Socket(family, unix.SOCK_RAW|flags, protocol)
	}
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	set := setDF
	if c.Mode == Fragment {
		set = clearDF
	}
	if err = errors.Join(set(fd, c.To.Addr().Is6()), reportErrors(fd, c.To.Addr().Is6())); err == nil {
		err = unix.Connect(fd, address(c.To, raw))
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &socket{os.NewFile(uintptr(fd), string(c.Protocol)), raw}, nil
}

// address converts to a socket address. Raw sockets have no port.
func address(to netip.AddrPort, raw bool) unix.Sockaddr {
	port := int(to.Port())
	if raw {
		port = 0
	}
	if to.Addr().Is4() {
		return &unix.SockaddrInet4{Port: port, Addr: to.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: port, Addr: to.Addr().As16()}
}

// setDF forbids fragmentation, locally and in transit.
func setDF(fd int, v6 bool) error {
	if !v6 {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO); err != nil {
		return err
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1)
}

func clearDF(fd int, v6 bool) error {
	if v6 {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DONT)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DONT)
}

// reportErrors makes the kernel report all ICMP errors, not only fatal ones.
func reportErrors(fd int, v6 bool) error {
	if v6 {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVERR, 1)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVERR, 1)
}

// pathMTU returns the kernel's path MTU to an address, in bytes; 0: unknown. It uses a new
// socket, because a connected one may hold an old route.
func pathMTU(to netip.AddrPort) int {
	family, level, option := unix.AF_INET, unix.IPPROTO_IP, unix.IP_MTU
	if to.Addr().Is6() {
		family, level, option = unix.AF_INET6, unix.IPPROTO_IPV6, unix.IPV6_MTU
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	if unix.Connect(fd, address(netip.AddrPortFrom(to.Addr(), max(to.Port(), 1)), false)) != nil {
		return 0
	}
	mtu, err := unix.GetsockoptInt(fd, level, option)
	if err != nil {
		return 0
	}
	return mtu
}

// control returns a function that applies a setting to a socket being opened.
func control(set func(fd int) error) func(string, string, syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var failed error
		if err := c.Control(func(fd uintptr) { failed = set(int(fd)) }); err != nil {
			return err
		}
		return failed
	}
}
