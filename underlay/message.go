//go:build linux

package underlay

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// message is the kernel's struct mmsghdr. Its pointers are ordinary Go pointers, so the memory they
// point to stays alive as long as the message.
type message struct {
	header unix.Msghdr
	length uint32 // bytes received
	_      [4]byte
}

// address sets the destination and the payload of m. Both must stay in place while m is in use.
func (m *message) address(to *Destination, payload []unix.Iovec) {
	m.header.Name = &to.name[0]
	m.header.Namelen = to.size
	if len(payload) > 0 {
		m.header.Iov = &payload[0]
		m.header.SetIovlen(len(payload))
	}
}

// vector returns an iovec for the bytes of b, which must not be empty.
func vector(b []byte) unix.Iovec {
	v := unix.Iovec{Base: &b[0]}
	v.SetLen(len(b))
	return v
}

// cut makes the kernel send m as datagrams of size bytes; c holds the control messages.
func (m *message) cut(c *controls, size int) {
	o := m.attach(c, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 2) // a __u16, udp(7)
	binary.NativeEndian.PutUint16(o.value[:], uint16(size))
}

// mark makes the kernel send m with an ECN field in the outer IP header; c holds the control messages.
// The DSCP next to it stays 0.
func (m *message) mark(c *controls, to *Destination, ecn uint8) {
	level, option := int32(unix.IPPROTO_IP), int32(unix.IP_TOS)
	if to.Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	o := m.attach(c, level, option, 4) // an int, ip(7) and ipv6(7)
	binary.NativeEndian.PutUint32(o.value[:], uint32(ecn))
}

// leave makes the kernel send m from the source of a destination that has one; c holds the control
// messages. The interface stays 0: the kernel routes as it does without a source.
func (m *message) leave(c *controls, to *Destination) {
	if to.Is6() {
		o := m.attach(c, unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, unix.SizeofInet6Pktinfo)
		copy(o.value[:], to.source[:])
		return
	}
	o := m.attach(c, unix.IPPROTO_IP, unix.IP_PKTINFO, unix.SizeofInet4Pktinfo)
	copy(o.value[specDst:], to.source[:4])
}

// attach appends a control message to m, in c, and returns it. Its value is zero.
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

// controls is the memory for the control messages of one message: the segment size, the ECN field, and
// the local address. Each is optional, and they are contiguous, so only the first is aligned to an
// element.
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

// at returns the control message at an offset. If the offset is below controlsSize, it ends within the
// array.
func (c *controls) at(offset int) *control {
	return (*control)(unsafe.Add(unsafe.Pointer(c), offset))
}

// told is what the kernel reports about a received message in control messages.
type told struct {
	segment int        // bytes of the datagrams that were coalesced; 0 = not coalesced
	ecn     uint8      // of the outer header; Not-ECT if not reported
	local   netip.Addr // the local address it was sent to; invalid = not reported
}

// read parses the first received bytes of control messages.
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

// Both calls below are raw: Go's scheduler does not see them, and the thread keeps its P, the right to
// run Go code, until they return. With unix.Syscall, sysmon takes the P from a call that lasts longer
// than about 20 µs while other goroutines wait, which a send of 64 KiB through half of the network stack
// does; it wakes another thread for the P, and the calling thread has to queue when it returns.
//
// The price: during a call no other goroutine runs on this P, and a stop of the world (garbage
// collection, GOMAXPROCS) waits for it. Calls are short, because MSG_DONTWAIT keeps them from waiting
// for the network. They can still wait for memory, for the socket's lock and, like all code, for a
// processor.

// recvmmsg fills messages with what is in the socket's queue, without blocking.
func recvmmsg(fd int, messages []message) (n int, errno unix.Errno) {
	r, _, errno := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(messages))), uintptr(len(messages)), unix.MSG_DONTWAIT, 0, 0)
	return count(r, errno), errno
}

// sendmmsg sends messages in order, without blocking. n messages were sent; an error is about
// messages[n], and is reported only when n is 0.
func sendmmsg(fd int, messages []message) (n int, errno unix.Errno) {
	r, _, errno := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(fd),
		uintptr(unsafe.Pointer(unsafe.SliceData(messages))), uintptr(len(messages)), unix.MSG_DONTWAIT, 0, 0)
	return count(r, errno), errno
}

// count returns a system call's result, 0 if it failed.
func count(r uintptr, errno unix.Errno) int {
	if errno != 0 {
		return 0
	}
	return int(r)
}

// queued reports whether an error may belong to an earlier datagram: the kernel stores an ICMP error
// (RFC 1122 section 4.1.3.3) and fails the next system call on the socket with it. The error is reported
// once, so the call should be repeated.
func queued(errno unix.Errno) bool {
	switch errno {
	case unix.ECONNREFUSED, unix.EHOSTUNREACH, unix.ENETUNREACH, unix.EHOSTDOWN,
		unix.ENONET, unix.ENOPROTOOPT, unix.EPROTO, unix.EACCES, unix.EOPNOTSUPP:
		return true
	}
	return false
}
