package underlay

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// message is the kernel's struct mmsghdr. Its pointers are ordinary Go pointers, so
// the memory they name stays alive as long as the message does.
type message struct {
	header unix.Msghdr
	length uint32 // bytes received
	_      [4]byte
}

// address makes m a message to a destination. to and payload must stay where they are
// while m is in use.
func (m *message) address(to *Destination, payload []unix.Iovec) {
	m.header.Name = &to.name[0]
	m.header.Namelen = to.size
	if len(payload) > 0 {
		m.header.Iov = &payload[0]
		m.header.SetIovlen(len(payload))
	}
}

// vector points the kernel at the bytes of b, which must not be empty.
func vector(b []byte) unix.Iovec {
	v := unix.Iovec{Base: &b[0]}
	v.SetLen(len(b))
	return v
}

// cut makes the kernel send m as datagrams of size bytes; c is the room to say so.
func (m *message) cut(c *controls, size int) {
	o := m.attach(c, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 2) // a __u16, udp(7)
	binary.NativeEndian.PutUint16(o.value[:], uint16(size))
}

// mark makes the kernel send m with an ECN field in the outer IP header; c is the room to
// say so. The DSCP next to it stays 0.
func (m *message) mark(c *controls, to *Destination, ecn uint8) {
	level, option := int32(unix.IPPROTO_IP), int32(unix.IP_TOS)
	if to.Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	o := m.attach(c, level, option, 4) // an int, ip(7) and ipv6(7)
	binary.NativeEndian.PutUint32(o.value[:], uint32(ecn))
}

// attach begins the next control message of m, in c, the room for all of them.
func (m *message) attach(c *controls, level, option int32, size int) *control {
	used := int(m.header.Controllen) / controlSize
	o := &c[used]
	o.header.Level, o.header.Type = level, option
	o.header.SetLen(unix.SizeofCmsghdr + size)
	m.header.Control = (*byte)(unsafe.Pointer(c))
	m.header.SetControllen((used + 1) * controlSize)
	return o
}

// controls is the room for the control messages of one message: the size of segments, and
// the ECN field. Either can be missing, and none leaves a gap.
type controls [2]control

// control is one control message with a number in it.
type control struct {
	header unix.Cmsghdr
	value  [8]byte
}

// controlSize is CMSG_SPACE of any of these numbers, bytes.
const controlSize = unix.SizeofCmsghdr + 8

// read gives what the kernel told of a message in so many bytes of control messages: the
// segment size it coalesced with, 0 if it did not, and the outer ECN field, Not-ECT if it
// does not tell.
func (c *controls) read(received int) (segment int, ecn uint8) {
	for i := range min(len(c), received/controlSize) {
		o := &c[i]
		switch {
		case o.is(unix.IPPROTO_UDP, unix.UDP_GRO): // an int, udp(7)
			segment = int(int32(binary.NativeEndian.Uint32(o.value[:])))
		case o.is(unix.IPPROTO_IP, unix.IP_TOS): // a byte, ip(7)
			ecn = o.value[0] & ecnMask
		case o.is(unix.IPPROTO_IPV6, unix.IPV6_TCLASS): // an int, ipv6(7)
			ecn = uint8(binary.NativeEndian.Uint32(o.value[:])) & ecnMask
		}
	}
	return segment, ecn
}

// ecnMask is the ECN field in a TOS or traffic class, RFC 3168 section 5.
const ecnMask = 0b11

func (c *control) is(level, option int32) bool {
	return c.header.Level == level && c.header.Type == option
}

// Both calls below are raw: Go's scheduler is not told. Told, it takes the processor
// away from a call that lasts longer than some 20 µs, as a send of 64 KiB through half
// of the network stack does, wakes another thread for it, and makes this one queue when
// it comes back. Neither call ever blocks, so there is nothing to make room for.

// recvmmsg fills messages with what waits in the socket's queue, without blocking.
func recvmmsg(fd int, messages []message) (n int, errno unix.Errno) {
	r, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(messages))), uintptr(len(messages)), unix.MSG_DONTWAIT, 0, 0)
	return count(r, errno), errno
}

// sendmmsg sends messages in order, without blocking. n messages were taken; an
// error is about messages[n], and is reported only when n is 0.
func sendmmsg(fd int, messages []message) (n int, errno unix.Errno) {
	r, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(messages))), uintptr(len(messages)), unix.MSG_DONTWAIT, 0, 0)
	return count(r, errno), errno
}

// count is a system call's result where an error stands for none.
func count(r uintptr, errno unix.Errno) int {
	if errno != 0 {
		return 0
	}
	return int(r)
}

// queued tells whether an error may belong to an earlier datagram: the kernel keeps
// what ICMP reported (RFC 1122 section 4.1.3.3) until the next system call on the
// socket and fails that one with it. Reported once it is forgotten, so the call is
// worth repeating.
func queued(errno unix.Errno) bool {
	switch errno {
	case unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN,
		unix.ENONET, unix.ENOPROTOOPT, unix.EPROTO, unix.EACCES, unix.EOPNOTSUPP:
		return true
	}
	return false
}
