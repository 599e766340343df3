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
func (m *message) cut(c *control, size int) {
	c.header.Level = unix.IPPROTO_UDP
	c.header.Type = unix.UDP_SEGMENT
	c.header.SetLen(unix.SizeofCmsghdr + gsoValueSize)
	binary.NativeEndian.PutUint16(c.value[:], uint16(size))
	m.header.Control = (*byte)(unsafe.Pointer(c))
	m.header.SetControllen(controlSize)
}

// control is one control message with a number in it: the room for UDP_GRO when
// receiving, for UDP_SEGMENT when sending.
type control struct {
	header unix.Cmsghdr
	value  [8]byte
}

const controlSize = unix.SizeofCmsghdr + 8

// The kernel reports the size of received segments as an int and takes the size of
// segments to send as a __u16 (udp(7)).
const (
	groValueSize = 4
	gsoValueSize = 2
)

// groSize is the segment size the kernel coalesced with, or 0 if it did not.
func (c *control) groSize(received int) int {
	if received < unix.SizeofCmsghdr+groValueSize ||
		c.header.Level != unix.IPPROTO_UDP || c.header.Type != unix.UDP_GRO {
		return 0
	}
	return int(int32(binary.NativeEndian.Uint32(c.value[:])))
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
