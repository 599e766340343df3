//go:build linux

package underlay

import (
	"net"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// ReceiveBatch is the maximum number of messages per Fill; fewer mean that the queue is empty. A
	// pod's socket usually gets no GRO, so a message is one datagram and this is the batch size.
	ReceiveBatch = 64

	// receiveSize holds any message: neither a datagram nor the result of GRO is longer than an IP
	// packet, 65535 bytes. Large messages occur without GRO too: the encapsulated TCP of a pod on the
	// same machine arrives unsegmented.
	receiveSize = 1 << 16

	// receiveStride is the distance between buffers. At 64 KiB all of them would start in the same
	// cache set; 23 more lines of 64 bytes place 1400-byte datagrams side by side in the cache.
	receiveStride = receiveSize + 23*64
)

// Receiver reads a socket in batches: one system call fills up to 64 messages of up to 64 KiB, each of
// which may contain several datagrams that the kernel coalesced. It uses 4 MiB of address space, of which
// only the parts written by datagrams occupy memory. It is for one goroutine at a time.
type Receiver struct {
	socket   *Socket
	buffers  []byte
	messages []message
	vectors  []unix.Iovec
	names    [][unix.SizeofSockaddrInet6]byte
	controls []controls

	filled int // messages received by the last Fill
	opened int // how many of them Next has started

	// The message that Next is splitting.
	rest    []byte
	segment int // bytes of each datagram in it except the last
	from    netip.AddrPort
	ecn     uint8
	local   netip.Addr
}

// NewReceiver returns a receiver for s. The caller keeps ownership of s.
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
		header.Control = (*byte)(unsafe.Pointer(&r.controls[i]))
		r.resetLengths(i)
	}
	return r
}

// resetLengths resets the buffer lengths for the sender's name and the control messages; the kernel
// overwrites them with the lengths used.
func (r *Receiver) resetLengths(i int) {
	header := &r.messages[i].header
	header.Namelen = unix.SizeofSockaddrInet6
	header.SetControllen(controlsSize)
}

// Use makes r read another socket from now on. Like Fill, it must be called only at the end of a batch.
func (r *Receiver) Use(s *Socket) { r.socket = s }

// Fill receives without blocking and returns the number of messages; 0 and no error if nothing waits. It
// must be called only after Next has reported the end of the previous batch, whose memory it reuses. The
// error is net.ErrClosed after Socket.Close; any other error comes from the kernel and may be temporary.
func (r *Receiver) Fill() (messages int, err error) {
	for i := range r.filled {
		r.resetLengths(i)
	}
	r.filled, r.opened, r.rest = 0, 0, nil
	if k := r.socket.classes; k != nil {
		r.filled, err = k.fill(r)
	} else {
		r.filled, err = r.take(r.socket, 0, ReceiveBatch)
	}
	return r.filled, err
}

// take receives from one socket into some of the messages, and returns their number.
func (r *Receiver) take(s *Socket, from, to int) (messages int, err error) {
	if !s.fd.acquire() {
		return 0, net.ErrClosed
	}
	defer s.fd.release()
	for repeated := false; ; {
		n, errno := recvmmsg(s.fd.number, r.messages[from:to])
		switch {
		case errno == 0:
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

// Next returns the next datagram of the last Fill, in order of arrival, and its sender; ok is false at the
// end. An IPv4 sender is returned as an IPv4 address. The memory belongs to the caller, who may write to
// it, until the next Fill.
func (r *Receiver) Next() (datagram []byte, from netip.AddrPort, ok bool) {
	datagram, _, from, ok = r.NextUnless(nil)
	return datagram, from, ok
}

// NextUnless is Next for callers that parse datagrams. It does not split a message for which one reports true, but
// returns the size at which the kernel says to split it, bytes, else 0: when a tunnel device on the same machine sends one
// datagram with a segmented packet inside, that is the inner size, and splitting would be wrong.
func (r *Receiver) NextUnless(one func(message []byte) bool) (datagram []byte, segment int, from netip.AddrPort, ok bool) {
	started := len(r.rest) == 0
	if started && !r.open() {
		return nil, 0, netip.AddrPort{}, false
	}
	n := min(r.segment, len(r.rest))
	if started && n < len(r.rest) && one != nil && one(r.rest) {
		n, segment = len(r.rest), n
	}
	datagram, r.rest = r.rest[:n:n], r.rest[n:]
	return datagram, segment, r.from, true
}

// ECN returns the ECN field (RFC 3168 section 5) of the outer IP header of the last datagram or message. It
// is 0, Not-ECT, unless the socket was opened with Options.ECN and the kernel supports it.
//
// One value per message is correct, because the kernel does not coalesce datagrams with different TOS.
// Kernels before May 2024 (6.9, and the stable releases of that month) do so when a network card delivers
// such datagrams back to back; then the value is that of the first datagram.
func (r *Receiver) ECN() uint8 { return r.ecn }

// Local returns the local address to which the last datagram or message was sent. It is invalid unless the
// socket was opened with Options.LocalAddress and the kernel supports it.
func (r *Receiver) Local() netip.Addr { return r.local }

// open starts the next message of the batch, if there is one. A message that was not coalesced is a single
// segment.
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

// maxStreak is the maximum number of consecutive batches from one socket before the next is read.
const maxStreak = 8

// Turns is a Receiver for several sockets. Usually one receives everything: peers rarely use both
// address families, nodes rarely both encapsulations. So a socket is read until it is empty, or for eight
// batches: reading another one takes a system call. It is for one goroutine at a time.
type Turns struct {
	*Receiver
	sockets []*Socket
	current int // index of the socket of the last batch
	streak  int // number of consecutive batches from it
}

// NewTurns returns Turns without sockets.
func NewTurns() *Turns { return &Turns{Receiver: NewReceiver(nil)} }

// Add adds a socket. The caller keeps ownership of it.
func (t *Turns) Add(s *Socket) { t.sockets = append(t.sockets, s) }

// Current returns the index of the socket of the last batch, in the order in which they were added.
func (t *Turns) Current() int { return t.current }

// FillAny is Fill for any of the sockets. It tells the poller that watches them what it has to know. failed gets each
// error. It returns the number of messages, 0 if no socket has any.
func (t *Turns) FillAny(p *Poller, failed func(error)) (messages int) {
	if t.streak == maxStreak {
		t.next()
	}
	for range t.sockets {
		t.Use(t.sockets[t.current])
		n, err := t.Fill()
		if err != nil {
			failed(err)
		}
		if n >= PauseAt {
			p.Pause()
		}
		if n > 0 {
			t.streak++
			return n
		}
		t.next()
	}
	return 0
}

func (t *Turns) next() {
	t.current = (t.current + 1) % len(t.sockets)
	t.streak = 0
}
