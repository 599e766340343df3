//go:build linux

package underlay

import (
	"cmp"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"strait.dev/strait/config"
)

// setOptions requests the features that the options allow, and returns those that the kernel granted. A missing
// feature costs speed, or information about congestion and MTU, but no function, so it is not an error. six is true
// for an IPv6 socket.
func setOptions(fd int, six bool, o Options) Features {
	return Features{
		// The kernel reports the TOS or traffic class of every message.
		ECN: o.ECN && set(fd, six, unix.IP_RECVTOS, unix.IPV6_RECVTCLASS, 1),
		// The kernel reports the local address of every message. Without it the kernel also chooses the source address of
		// answers; that is not an error.
		LocalAddress: o.LocalAddress && set(fd, six, unix.IP_PKTINFO, unix.IPV6_RECVPKTINFO, 1),
		// The kernel sets DF on all sent datagrams, and returns EMSGSIZE for datagrams that exceed the network device's MTU.
		// "Probe" instead of "do" mode ignores ICMP errors about the path MTU: an attacker who knows a port can forge them
		// (RFC 8899 sections 4.5 and 4.6.1).
		DontFragment:  o.DontFragment && set(fd, six, unix.IP_MTU_DISCOVER, unix.IPV6_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE),
		GRO:           !o.DisableGRO && enableGRO(fd),
		GSO:           !o.DisableGSO && offersGSO(fd),
		ReceiveBuffer: resize(fd, unix.SO_RCVBUF, cmp.Or(o.ReceiveBuffer, config.SocketBuffer)),
		SendBuffer:    resize(fd, unix.SO_SNDBUF, config.SocketBuffer),
	}
}

// enableGRO enables UDP_GRO (Linux 5.0) and reads it back (5.12). Kernels in between coalesce with bugs and cannot
// read it back, so it stays disabled there.
func enableGRO(fd int) bool {
	if unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1) != nil {
		return false
	}
	on, err := unix.GetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO)
	if err == nil && on == 1 {
		return true
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 0)
	return false
}

// set sets an option of the socket's address family, and reports whether the kernel took it.
func set(fd int, six bool, option4, option6, value int) bool {
	if six {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, option6, value) == nil
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, option4, value) == nil
}

// offersGSO reports whether UDP_SEGMENT works (Linux 4.18). Whether the network device supports it shows only when
// sending.
func offersGSO(fd int) bool {
	if _, err := unix.GetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT); err != nil {
		return false
	}
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return false
	}
	return !breaksGSO(unix.ByteSliceToString(name.Release[:]))
}

// breaksGSO reports whether the kernel is one of 7.0 up to 7.1.4, which give some network devices UDP_SEGMENT
// messages with wrong UDP lengths and checksums when all segments are equally long (introduced by b10b446, fixed in
// 7.1.5). The sender cannot detect it: the datagrams are lost later on the path.
func breaksGSO(release string) bool {
	var major, minor, patch int
	_, _ = fmt.Sscanf(release, "%d.%d.%d", &major, &minor, &patch) // missing numbers stay 0
	return major == 7 && (minor == 0 || minor == 1 && patch < 5)
}

// resize requests a queue of so many bytes and returns the size granted. The kernel doubles the number for its own
// bookkeeping and reports it doubled.
func resize(fd, option, bytes int) int {
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, bytes)
	granted, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
	if err != nil {
		return 0
	}
	return granted / 2
}

// kernelDrops reads the drop counter of a socket with SO_MEMINFO (Linux 4.12). Unlike SO_RXQ_OVFL it works at any
// time, even when no more messages arrive, and costs the receive path nothing. The call is raw like those in message.go:
// a busy reader makes 50 a second, and one that Go's scheduler sees wakes its monitor thread, which then sleeps only
// 20 µs at a time until it has found nothing to do 50 times.
func kernelDrops(fd int) (drops uint32, ok bool) {
	var memory [unix.SK_MEMINFO_VARS]uint32
	size := uint32(unsafe.Sizeof(memory))
	_, _, errno := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&memory)), uintptr(unsafe.Pointer(&size)), 0)
	return memory[unix.SK_MEMINFO_DROPS], errno == 0
}
