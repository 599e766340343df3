package relay

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// The sizes in bytes of the stack's buffers, each way, of connections beyond Limits.LargeBuffers, and of those beyond
// Limits.SmallBuffers too.
const (
	smallBuffer = 64 << 10
	leastBuffer = 16 << 10
)

// connection is an established TCP connection of a client and a target, one of which the stack reaches, and the other one
// a socket of the machine.
//
//	both open ──one side ends──► half closed ──the other ends──► leaving ──► gone
//	    └──────────a reset, an error, idle too long, withdrawn─────────────► gone
//
// Data from one side is read only when the other side accepts it, so flow control works end to end: each side sees the
// window that the other leaves.
type connection struct {
	relay  *Relay
	part   *part
	ctx    context.Context // ends the connection
	stream *stream
	socket *socket
	slot   *slot // of the quota

	fromStream, fromSocket *atomic.Uint64 // bytes

	idle   idle
	halves atomic.Int32 // number of halves that have ended
	broken sync.Once
	cut    atomic.Bool // reset before both halves had ended
}

// serve copies until both sides have ended or one fails.
func (c *connection) serve() {
	c.setOptions()
	c.idle.clock, c.idle.limit, c.idle.expired = c.relay.clock, c.limit, c.expire
	c.idle.start()
	c.slot.hold(&c.idle, c.evict)
	withdrawn := context.AfterFunc(c.ctx, c.reset)
	giveBuffers := c.limitBuffers()

	var both sync.WaitGroup
	both.Go(func() { c.half(c.toSocket) })
	c.half(c.toStream)
	both.Wait()

	giveBuffers()
	c.idle.stop()
	c.slot.keep()
	if withdrawn() && !c.cut.Load() {
		c.leave()
		return
	}
	c.reset() // also waits for a reset by another goroutine
	c.slot.give()
}

// limitBuffers limits the stack's buffers of the connection, until give is called.
func (c *connection) limitBuffers() (give func()) {
	size, give := leastBuffer, func() {}
	switch r := c.relay; {
	case r.largeBuffers.take():
		return r.largeBuffers.give
	case r.smallBuffers.take():
		size, give = smallBuffer, r.smallBuffers.give
	}
	o := c.stream.end.SocketOptions()
	o.SetReceiveBufferSize(int64(size), true)
	o.SetSendBufferSize(int64(size), true)
	return give
}

// setOptions makes the stack detect that its far end is gone.
func (c *connection) setOptions() {
	end := c.stream.end
	end.SocketOptions().SetKeepAlive(true)
	idle, interval := tcpip.KeepaliveIdleOption(keepaliveIdle), tcpip.KeepaliveIntervalOption(keepaliveInterval)
	_ = end.SetSockOpt(&idle) // these cannot fail on TCP
	_ = end.SetSockOpt(&interval)
	_ = end.SetSockOptInt(tcpip.KeepaliveCountOption, keepaliveCount)
}

// half copies one direction, and resets both sides on an error.
func (c *connection) half(copyAll func() error) {
	if err := copyAll(); err != nil {
		c.reset()
		return
	}
	c.halves.Add(1)
	c.idle.touch()
	c.idle.watch() // the limit has changed
}

func (c *connection) toSocket() error {
	for {
		b, n, err := c.stream.receive()
		if err == nil {
			_, err = c.socket.Write(b[:n])
		}
		giveBuffer(b)
		if errors.Is(err, io.EOF) {
			return c.socket.end()
		}
		if err != nil {
			return err
		}
		c.idle.touch()
		c.fromStream.Add(uint64(n))
	}
}

func (c *connection) toStream() error {
	for {
		b, n, err := c.socket.receive()
		if err == nil {
			err = c.stream.send(b[:n])
		}
		if b != nil {
			giveBuffer(b)
		}
		if err != nil {
			return err
		}
		if n == 0 { // the far end has closed its half
			if err := c.stream.end.Shutdown(tcpip.ShutdownWrite); err != nil {
				return io.ErrClosedPipe
			}
			return nil
		}
		c.idle.touch()
		c.fromSocket.Add(uint64(n))
	}
}

// limit returns the current idle timeout.
func (c *connection) limit() time.Duration {
	if c.halves.Load() > 0 {
		return c.relay.limits.HalfClosed
	}
	return c.relay.limits.Idle
}

func (c *connection) evict() {
	c.part.tcp.evicted.Add(1)
	c.reset()
}

func (c *connection) expire() {
	c.part.tcp.expired.Add(1)
	c.reset()
}

// reset closes both sides with a reset, so that both see that the connection was not finished. It waits if another
// goroutine is doing so.
func (c *connection) reset() {
	c.broken.Do(func() {
		c.cut.Store(true)
		c.stream.end.Abort()
		c.socket.reset()
	})
}

// leave closes both sides. The stack may still have data to send, so the connection counts in the quota until that has
// arrived, for at most Limits.Leaving.
func (c *connection) leave() {
	c.socket.Close()
	l := &leaving{connection: c, counted: true}
	entry := waiter.NewFunctionEntry(waiter.EventHUp, func(waiter.EventMask) { l.look() })
	c.stream.queue.EventRegister(&entry)
	patience := tcpip.TCPUserTimeoutOption(c.relay.limits.Leaving)
	_ = c.stream.end.SetSockOpt(&patience) // cannot fail on TCP
	c.stream.end.Close()
	l.look()
}

// leaving is a closed connection that the stack still handles.
type leaving struct {
	*connection

	mu      sync.Mutex
	counted bool // counts in the quota of connections
	waits   bool // in TIME-WAIT, and counts in that quota
	ending  bool // TIME-WAIT was cut short
}

// look releases what the connection no longer needs.
func (l *leaving) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.stream.state()
	waits := state == tcp.StateTimeWait
	if !waits && state != tcp.StateClose && state != tcp.StateError {
		return
	}
	r := l.relay
	if l.counted {
		l.counted = false
		l.slot.give()
	}
	switch {
	case waits && !l.waits && !l.ending:
		if l.waits = r.timeWait.take(); !l.waits {
			l.ending = true
			go l.stream.end.Abort() // not here: the stack may hold its locks
		}
	case !waits && l.waits:
		l.waits = false
		r.timeWait.give()
	}
}
