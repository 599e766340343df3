//go:build linux

package underlay

import (
	"errors"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// maxWait is how long one batch waits in total for space in send queues: a device of 100 Mbit/s sends half of a
	// queue of 208 KiB, the kernel's default, in 9 ms. A queue that stays full longer belongs to a device that does
	// not send, or to a destination that does not answer ARP.
	maxWait = 10 * time.Millisecond
	// fullPause is how long no batch waits for a queue that one has waited for in vain, so that a full queue takes
	// at most a tenth of the time of the goroutine that sends.
	fullPause = 100 * time.Millisecond
)

// transmit sends all groups and empties the batch. It waits for full send queues only after everything else was
// sent. It clears all pointers, so that the batch keeps no memory of the caller alive.
func (b *Batch) transmit() {
	b.patience = b.wait
	for _, wait := range [...]bool{false, true} {
		for i := range b.senders {
			if b.senders[i].first != none {
				b.pushGroups(&b.senders[i], wait)
			}
		}
	}
	clear(b.datagrams)
	clear(b.groups)
	clear(b.senders)
	clear(b.latest)
	b.datagrams, b.groups, b.senders = b.datagrams[:0], b.groups[:0], b.senders[:0]
}

// pushGroups sends the groups of one socket. If wait is false, it stops when the send queue is full, and leaves the
// rest in s.
func (b *Batch) pushGroups(s *sender, wait bool) {
	b.layOut(s.first)
	done := b.push(s.socket, b.messages[:len(b.order)], b.order, wait)
	if s.first = none; done < len(b.order) {
		s.first = b.order[done]
	}
	clear(b.messages[:len(b.order)])
	clear(b.vectors)
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

// push sends messages through s until each is sent or dropped, or, if wait is false, the send queue is full. It
// returns the number of messages sent or dropped. messages[i] consists of groups[i]; without groups every message is
// one datagram.
func (b *Batch) push(s *Socket, messages []message, groups []int32, wait bool) (done int) {
	if !s.fd.acquire() {
		b.drop(messages, b.count(groups, 0, len(messages)), unix.EBADF)
		return len(messages)
	}
	defer s.fd.release()
	repeated := false // the send of messages[done], after an error that may belong to an earlier datagram
	for done < len(messages) {
		n, errno := b.send(s.fd.number, messages[done:])
		switch {
		case errno == 0:
			b.sent += b.count(groups, done, done+n)
			done += n
			repeated = false
		case errno == unix.EINTR:
		case errno == unix.EAGAIN && !wait:
			return done
		case errno == unix.EAGAIN:
			if !b.awaitWritable(s) {
				b.drop(messages[done:], b.count(groups, done, len(messages)), errno)
				return len(messages)
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
	return done
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
			b.droppedBytes += v.Len
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
	b.push(s, b.single[:n], nil, true)
	clear(b.single[:n])
}

// awaitWritable waits until the socket can take another message. It reports false when the batch has waited for
// maxWait, or when another has waited in vain a short time ago.
func (b *Batch) awaitWritable(s *Socket) bool {
	start := time.Now()
	if b.patience <= 0 || start.Before(*s.fullUntil.Load()) {
		return false
	}
	timeout := unix.NsecToTimespec(int64(b.patience))
	n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(s.fd.number), Events: unix.POLLOUT}}, &timeout, nil)
	end := time.Now()
	b.patience -= end.Sub(start)
	if n > 0 || errors.Is(err, unix.EINTR) {
		return true
	}
	until := end.Add(fullPause)
	s.fullUntil.Store(&until)
	return false
}
