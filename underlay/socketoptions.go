package underlay

import (
	"cmp"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setOptions asks the kernel for what the options allow, and reports what it granted. A
// refusal costs speed, or what routers on the way have to say of congestion and MTU, but
// never function, so it is not an error. six says that the socket is an IPv6 one.
func setOptions(fd int, six bool, o Options) Features {
	return Features{
		ECN:           o.ECN && enableECN(fd, six),
		DontFragment:  o.DontFragment && forbidFragments(fd, six),
		GRO:           !o.DisableGRO && enableGRO(fd),
		GSO:           !o.DisableGSO && offersGSO(fd),
		ReceiveBuffer: resize(fd, unix.SO_RCVBUF, cmp.Or(o.ReceiveBuffer, DefaultBuffer)),
		SendBuffer:    resize(fd, unix.SO_SNDBUF, cmp.Or(o.SendBuffer, DefaultBuffer)),
	}
}

// enableGRO turns UDP_GRO on (Linux 5.0) and reads it back (5.12): the kernels in
// between coalesce with bugs, so the missing answer is a welcome no.
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

// enableECN makes the kernel tell the TOS or traffic class of every message.
func enableECN(fd int, six bool) bool {
	if six {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1) == nil
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_RECVTOS, 1) == nil
}

// forbidFragments sets DF on all that is sent, and makes the kernel answer EMSGSIZE to what
// the network device's MTU cannot carry. It is "probe" rather than "do": what an ICMP error
// says of the path's MTU, which anybody can forge who knows a port, stops nothing (RFC 8899
// sections 4.5 and 4.6.1).
func forbidFragments(fd int, six bool) bool {
	if six {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE) == nil
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE) == nil
}

// offersGSO tells whether UDP_SEGMENT works (Linux 4.18). Whether the network device
// takes it shows only when sending.
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

// breaksGSO names the kernels, 7.0 up to 7.1.4, that give some network devices
// UDP_SEGMENT messages with wrong UDP lengths and checksums when all segments are
// equally long (introduced by b10b446, repaired in 7.1.5). A sender cannot see it:
// the datagrams are lost further on.
func breaksGSO(release string) bool {
	var major, minor, patch int
	_, _ = fmt.Sscanf(release, "%d.%d.%d", &major, &minor, &patch) // what is missing stays 0
	return major == 7 && (minor == 0 || minor == 1 && patch < 5)
}

// resize asks for a queue of so many bytes and returns what was granted. The kernel
// doubles the number to allow for its own bookkeeping and reports it doubled.
func resize(fd, option, bytes int) int {
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, bytes)
	granted, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option)
	if err != nil {
		return 0
	}
	return granted / 2
}

// kernelDrops reads the counter that SO_RXQ_OVFL attaches to messages. SO_MEMINFO
// (Linux 4.12) gives it at any time, also when no message comes any more, and costs
// the receive path nothing.
func kernelDrops(fd int) (drops uint32, ok bool) {
	var memory [unix.SK_MEMINFO_VARS]uint32
	size := uint32(unsafe.Sizeof(memory))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&memory)), uintptr(unsafe.Pointer(&size)), 0)
	return memory[unix.SK_MEMINFO_DROPS], errno == 0
}
