package underlay

import (
	"encoding/binary"
	"net/netip"
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

// leave makes the kernel send m from the source of a destination that has one; c is the
// room to say so. The interface stays 0: the kernel routes as it does without a source.
func (m *message) leave(c *controls, to *Destination) {
	if to.Is6() {
		o := m.attach(c, unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, unix.SizeofInet6Pktinfo)
		copy(o.value[:], to.source[:])
		return
	}
	o := m.attach(c, unix.IPPROTO_IP, unix.IP_PKTINFO, unix.SizeofInet4Pktinfo)
	copy(o.value[specDst:], to.source[:4])
}

// attach begins the next control message of m, in c, the room for all of them. Its value
// is zero.
func (m *message) attach(c *controls, level, option int32, size int) *control {
	used := int(m.header.Controllen)
	o := c.at(used)
	o.header.Level, o.header.Type = level, option
	o.header.SetLen(unix.SizeofCmsghdr + size)
	clear(o.value[:size])
	m.header.Control = (*byte)(unsafe.Pointer(c))
	m.header.SetControllen(used + unix.CmsgSpace(size))
	return o
}

// controls is the room for the control messages of one message: the size of segments, the
// ECN field, and the address of this machine. Any can be missing, and none leaves a gap:
// they lie one behind the other, and only the first begins where an element does.
type controls [3]control

// control is one control message.
type control struct {
	header unix.Cmsghdr
	value  [24]byte // a number in the first bytes, or struct in_pktinfo or in6_pktinfo
}

const (
	// numberSize is CMSG_SPACE of any of the numbers, bytes. No control message is smaller.
	numberSize = unix.SizeofCmsghdr + 8

	// controlsSize is CMSG_SPACE of all three, bytes: two numbers and an in6_pktinfo.
	controlsSize = 2*numberSize + unix.SizeofCmsghdr + 24

	// specDst is where struct in_pktinfo has the local address of a packet (ip(7)): after
	// the number of the interface.
	specDst = 4
)

// at is the control message that begins after so many bytes of others. With fewer than
// controlsSize of them, it ends within the room.
func (c *controls) at(offset int) *control {
	return (*control)(unsafe.Add(unsafe.Pointer(c), offset))
}

// told is what the kernel tells of a received message beside its bytes and its sender.
type told struct {
	segment int        // bytes of the datagrams it was coalesced of; 0 = it was not
	ecn     uint8      // of the outer header; Not-ECT if the kernel does not tell
	local   netip.Addr // the address of this machine it was sent to; invalid = not told
}

// read gives what the kernel told in so many bytes of control messages.
func (c *controls) read(received int) (t told) {
	for offset := 0; offset+numberSize <= min(received, controlsSize); {
		o := c.at(offset)
		switch {
		case o.is(unix.IPPROTO_UDP, unix.UDP_GRO): // an int, udp(7)
			t.segment = int(int32(binary.NativeEndian.Uint32(o.value[:])))
		case o.is(unix.IPPROTO_IP, unix.IP_TOS): // a byte, ip(7)
			t.ecn = o.value[0] & ecnMask
		case o.is(unix.IPPROTO_IPV6, unix.IPV6_TCLASS): // an int, ipv6(7)
			t.ecn = uint8(binary.NativeEndian.Uint32(o.value[:])) & ecnMask
		case o.is(unix.IPPROTO_IP, unix.IP_PKTINFO):
			t.local = netip.AddrFrom4([4]byte(o.value[specDst:]))
		case o.is(unix.IPPROTO_IPV6, unix.IPV6_PKTINFO):
			t.local = netip.AddrFrom16([16]byte(o.value[:]))
		}
		length := int(min(o.header.Len, controlsSize)) - unix.SizeofCmsghdr
		offset += max(unix.CmsgSpace(length), numberSize)
	}
	return t
}

// ecnMask is the ECN field in a TOS or traffic class, RFC 3168 section 5.
const ecnMask = 0b11

func (c *control) is(level, option int32) bool {
	return c.header.Level == level && c.header.Type == option
}

// Both calls below are raw: Go's scheduler does not know of them, and the thread keeps its
// P, the right to run Go code, until they return. Around unix.Syscall, sysmon takes the P
// from a call that lasts longer than some 20 µs while other goroutines wait, as a send of
// 64 KiB through half of the network stack does; it wakes another thread for it, and makes
// this one queue when it comes back.
//
// The price: for the length of a call no other goroutine runs on this P, and a stop of the
// world (garbage collection, GOMAXPROCS) waits for it. Calls are short, because
// MSG_DONTWAIT keeps them from waiting for the network. They can still wait for memory, for
// the socket's lock and, like all code, for a processor.

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
