package underlay

import (
	"net"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// ReceiveBatch is how many messages one Fill may bring; fewer mean that the queue
	// is empty now. A pod's socket as a rule gets no GRO, so a message is one datagram
	// and this is the batch.
	ReceiveBatch = 64

	// receiveSize holds any message: neither a datagram nor what GRO makes of many is
	// longer than an IP packet, 65535 bytes. Without GRO too: the encapsulated TCP of
	// a pod on the same machine comes unsegmented.
	receiveSize = 1 << 16

	// receiveStride is the distance between buffers. At 64 KiB all of them would begin
	// in the same cache set; 23 lines of 64 bytes more put 1400-byte datagrams side by
	// side in the cache.
	receiveStride = receiveSize + 23*64
)

// Receiver reads a socket in batches: one system call fills up to 64 messages of up
// to 64 KiB, each of which may be many datagrams that the kernel coalesced. It owns
// 4 MiB of address space, of which only what datagrams touch becomes memory. It is
// for one goroutine at a time.
type Receiver struct {
	socket   *Socket
	buffers  []byte
	messages []message
	vectors  []unix.Iovec
	names    [][unix.SizeofSockaddrInet6]byte
	controls []controls

	filled int // messages brought by the last Fill
	opened int // of these, how many Next has begun with

	// The message that Next is cutting.
	rest    []byte
	segment int // bytes of each datagram in it but the last
	from    netip.AddrPort
	ecn     uint8
	local   netip.Addr
}

// NewReceiver makes a receiver of s. The caller keeps ownership of s.
func NewReceiver(s *Socket) *Receiver {
	r := &Receiver{
		socket:   s,
		buffers:  make([]byte, ReceiveBatch*receiveStride),
		messages: make([]message, ReceiveBatch),
		vectors:  make([]unix.Iovec, ReceiveBatch),
		names:    make([][unix.SizeofSockaddrInet6]byte, ReceiveBatch),
		controls: make([]controls, ReceiveBatch),
	}
	for i := range r.messages {
		r.vectors[i] = vector(r.buffers[i*receiveStride:][:receiveSize])
		header := &r.messages[i].header
		header.Iov = &r.vectors[i]
		header.SetIovlen(1)
		header.Name = &r.names[i][0]
		if s.features.GRO || s.features.ECN || s.features.LocalAddress {
			header.Control = (*byte)(unsafe.Pointer(&r.controls[i]))
		}
		r.resetLengths(i)
	}
	return r
}

// resetLengths tells the kernel again how much room there is for the sender's name and
// control messages; it overwrites both with what it used.
func (r *Receiver) resetLengths(i int) {
	header := &r.messages[i].header
	header.Namelen = unix.SizeofSockaddrInet6
	if header.Control != nil {
		header.SetControllen(controlsSize)
	}
}

// Fill receives what waits, without blocking, and returns the number of messages; 0
// and no error if nothing waits. It must be called only when Next has reported the
// end of the previous batch, whose memory it reuses. The error is net.ErrClosed after
// Socket.Close; any other comes from the kernel and may pass.
func (r *Receiver) Fill() (messages int, err error) {
	for i := range r.filled {
		r.resetLengths(i)
	}
	r.filled, r.opened, r.rest = 0, 0, nil
	if !r.socket.fd.acquire() {
		return 0, net.ErrClosed
	}
	defer r.socket.fd.release()
	for repeated := false; ; {
		n, errno := recvmmsg(r.socket.fd.number, r.messages)
		switch {
		case errno == 0:
			r.filled = n
			return n, nil
		case errno == unix.EAGAIN:
			return 0, nil
		case errno == unix.EINTR:
		case queued(errno) && !repeated:
			repeated = true
		default:
			return 0, os.NewSyscallError("recvmmsg", errno)
		}
	}
}

// Next returns the next datagram of the last Fill, in the order of arrival, and who
// sent it; ok is false at the end. An IPv4 sender is given as an IPv4 address. The
// memory belongs to the caller, who may write to it, until the next Fill.
func (r *Receiver) Next() (datagram []byte, from netip.AddrPort, ok bool) {
	if len(r.rest) == 0 && !r.open() {
		return nil, netip.AddrPort{}, false
	}
	n := min(r.segment, len(r.rest))
	datagram, r.rest = r.rest[:n:n], r.rest[n:]
	return datagram, r.from, true
}

// Message is Next without cutting: the next message whole, and the size in bytes of
// the datagrams in it (the last may be shorter) that the kernel told. Somebody who
// knows what the datagrams carry needs both: when a tunnel device on the same machine
// hands over one datagram with a segmented packet inside, the kernel tells the inner
// size, and cutting there would be wrong. Use Message or Next on one Receiver, not both.
func (r *Receiver) Message() (message []byte, segment int, from netip.AddrPort, ok bool) {
	if !r.open() {
		return nil, 0, netip.AddrPort{}, false
	}
	message, r.rest = r.rest, nil
	return message, r.segment, r.from, true
}

// ECN is the ECN field (RFC 3168 section 5) of the outer IP header of what Next or Message
// returned last: 0, Not-ECT, unless the socket was opened with Options.ECN and the kernel
// grants it.
//
// One value for a message is right, since the kernel does not coalesce datagrams whose TOS
// differ. Those before May 2024 (6.9, and the stable releases of that month) do so, when a
// network card brings such datagrams one behind the other: there the first one's field
// stands for all.
func (r *Receiver) ECN() uint8 { return r.ecn }

// Local is the address of this machine that what Next or Message returned last was sent
// to. It is invalid unless the socket was opened with Options.LocalAddress and the kernel
// grants it.
func (r *Receiver) Local() netip.Addr { return r.local }

// open begins with the next message of the batch, if there is one. A message that was
// not coalesced is a single segment.
func (r *Receiver) open() bool {
	if r.opened == r.filled {
		return false
	}
	i := r.opened
	r.opened++
	m := &r.messages[i]
	r.rest = r.buffers[i*receiveStride:][:m.length]
	r.from = addrPort(&r.names[i])
	r.segment = len(r.rest)
	told := r.controls[i].read(int(m.header.Controllen))
	if told.segment > 0 {
		r.segment = told.segment
	}
	r.ecn, r.local = told.ecn, told.local
	return true
}
