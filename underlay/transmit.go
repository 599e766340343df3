package underlay

import (
	"errors"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxWait is how long one batch waits in total for space in send queues. A queue that stays full longer belongs to
// a device that does not send.
const maxWait = 100 * time.Millisecond

// transmit sends all groups and empties the batch. It clears all pointers, so that the batch keeps no memory of the
// caller alive.
func (b *Batch) transmit() {
	b.patience = maxWait
	for i := range b.senders {
		b.layOut(b.senders[i].first)
		b.push(b.senders[i].socket, b.messages[:len(b.order)], b.order)
		clear(b.messages[:len(b.order)])
		clear(b.vectors)
	}
	clear(b.datagrams)
	clear(b.groups)
	clear(b.senders)
	clear(b.latest)
	b.datagrams, b.groups, b.senders = b.datagrams[:0], b.groups[:0], b.senders[:0]
}

// layOut builds the messages of one socket from its first group on: one message per group, with its datagrams side
// by side in vectors.
func (b *Batch) layOut(first int32) {
	b.vectors, b.order = b.vectors[:0], b.order[:0]
	for i := first; i != none; i = b.groups[i].next {
		g := &b.groups[i]
		g.vectors = len(b.vectors)
		for d := g.first; d != none; d = b.datagrams[d].next {
			b.vectors = appendVectors(b.vectors, &b.datagrams[d])
		}
		m, c := &b.messages[len(b.order)], &b.controls[len(b.order)]
		m.address(g.to, b.vectors[g.vectors:])
		if g.count > 1 {
			m.cut(c, g.segment)
		}
		g.describe(m, c)
		b.order = append(b.order, i)
	}
}

// describe adds control messages about the outer header to m; c holds them.
func (g *group) describe(m *message, c *controls) {
	if g.ecn != 0 {
		m.mark(c, g.to, g.ecn)
	}
	if g.to.fixed {
		m.leave(c, g.to)
	}
}

// appendVectors appends the non-empty parts of a datagram.
func appendVectors(vectors []unix.Iovec, d *datagram) []unix.Iovec {
	if len(d.head) > 0 {
		vectors = append(vectors, vector(d.head))
	}
	if len(d.body) > 0 {
		vectors = append(vectors, vector(d.body))
	}
	return vectors
}

// push sends messages through s until each is sent or dropped. messages[i] consists of groups[i]; without groups
// every message is one datagram.
func (b *Batch) push(s *Socket, messages []message, groups []int32) {
	if !s.fd.acquire() {
		b.drop(messages, b.count(groups, 0, len(messages)), unix.EBADF)
		return
	}
	defer s.fd.release()
	repeated := false // the send of messages[done], after an error that may belong to an earlier datagram
	for done := 0; done < len(messages); {
		n, errno := b.send(s.fd.number, messages[done:])
		switch {
		case errno == 0:
			b.sent += b.count(groups, done, done+n)
			done += n
			repeated = false
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			if !b.awaitWritable(s.fd.number) {
				b.drop(messages[done:], b.count(groups, done, len(messages)), errno)
				return
			}
		case queued(errno) && !repeated:
			repeated = true
		case refusesSegments(errno) && b.count(groups, done, done+1) > 1:
			if errno == unix.EIO {
				s.gso.Store(false)
			}
			b.pushSingly(s, &b.groups[groups[done]])
			done++
			repeated = false
		default:
			b.drop(messages[done:done+1], b.count(groups, done, done+1), errno)
			done++
			repeated = false
		}
	}
}

// count returns the number of datagrams in messages[from:to].
func (b *Batch) count(groups []int32, from, to int) int {
	if groups == nil {
		return to - from
	}
	datagrams := 0
	for _, i := range groups[from:to] {
		datagrams += b.groups[i].count
	}
	return datagrams
}

// drop counts the datagrams of lost messages and stores the reason.
func (b *Batch) drop(messages []message, datagrams int, reason unix.Errno) {
	b.dropped += datagrams
	b.lastError = reason
	for i := range messages {
		for _, v := range unsafe.Slice(messages[i].header.Iov, messages[i].header.Iovlen) {
			b.droppedBytes += uint64(v.Len)
		}
	}
}

// refusesSegments reports whether the kernel does not send these datagrams as one message, but may send them one by
// one: a segment is longer than the path's MTU (EINVAL, EMSGSIZE; a single datagram is fragmented, unless
// Options.DontFragment is set), or the device does not compute checksums (EIO; permanent).
func refusesSegments(errno unix.Errno) bool {
	return errno == unix.EINVAL || errno == unix.EMSGSIZE || errno == unix.EIO
}

// refusesSource reports whether the kernel does not send from the given address, but may send from another: no
// interface has it any more (EINVAL, EADDRNOTAVAIL), or there is no route from it (ENETUNREACH, EHOSTUNREACH).
func refusesSource(errno unix.Errno) bool {
	switch errno {
	case unix.EINVAL, unix.EADDRNOTAVAIL, unix.ENETUNREACH, unix.EHOSTUNREACH:
		return true
	}
	return false
}

// pushSingly sends each datagram of a group as a separate message.
func (b *Batch) pushSingly(s *Socket, g *group) {
	n, vectors := 0, b.vectors[g.vectors:]
	for d := g.first; d != none; d = b.datagrams[d].next {
		parts := b.datagrams[d].parts()
		b.single[n].address(g.to, vectors[:parts])
		g.describe(&b.single[n], &b.header)
		vectors = vectors[parts:]
		n++
	}
	b.push(s, b.single[:n], nil)
	clear(b.single[:n])
}

// awaitWritable waits until the socket can take another message. It reports false when the batch has waited for
// maxWait.
func (b *Batch) awaitWritable(fd int) bool {
	if b.patience <= 0 {
		return false
	}
	start := time.Now()
	timeout := unix.NsecToTimespec(int64(b.patience))
	n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, &timeout, nil)
	b.patience -= time.Since(start)
	return n > 0 || errors.Is(err, unix.EINTR)
}
