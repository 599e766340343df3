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

// smallBuffer is the size in bytes of the stack's buffers, each way, of connections beyond Limits.LargeBuffers.
const smallBuffer = 64 << 10

// connection is an established TCP connection with a client and a target.
//
//	both open ──one side ends──► half closed ──the other ends──► leaving ──► gone
//	    └──────────a reset, an error, idle too long, withdrawn─────────────► gone
//
// Data from one side is read only when the other side accepts it, so flow control works end to end: each side sees the
// window that the other leaves.
type connection struct {
	*attempt
	relay  *Relay
	target *target
	caller *stream

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
	withdrawn := context.AfterFunc(c.m.ctx, c.reset)
	largeBuffers := c.relay.largeBuffers.take()
	if !largeBuffers {
		o := c.caller.end.SocketOptions()
		o.SetReceiveBufferSize(smallBuffer, true)
		o.SetSendBufferSize(smallBuffer, true)
	}

	var both sync.WaitGroup
	both.Go(func() { c.half(c.toTarget) })
	c.half(c.toCaller)
	both.Wait()

	if largeBuffers {
		c.relay.largeBuffers.give()
	}
	c.idle.stop()
	if withdrawn() && !c.cut.Load() {
		c.leave()
		return
	}
	c.reset() // also waits for a reset by another goroutine
	c.relay.connections.give(c.m, c.attempt.caller)
}

// setOptions makes the stack detect that the client is gone.
func (c *connection) setOptions() {
	end := c.caller.end
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

func (c *connection) toTarget() error {
	for {
		b, n, err := c.caller.receive()
		if err == nil {
			_, err = c.target.Write(b[:n])
		}
		giveBuffer(b)
		if errors.Is(err, io.EOF) {
			return c.target.end()
		}
		if err != nil {
			return err
		}
		c.idle.touch()
		c.relay.tcp.toTarget.Add(uint64(n))
	}
}

func (c *connection) toCaller() error {
	for {
		b, n, err := c.target.receive()
		if err == nil {
			err = c.caller.send(b[:n])
		}
		if b != nil {
			giveBuffer(b)
		}
		if err != nil {
			return err
		}
		if n == 0 { // the target has closed its half
			if err := c.caller.end.Shutdown(tcpip.ShutdownWrite); err != nil {
				return io.ErrClosedPipe
			}
			return nil
		}
		c.idle.touch()
		c.relay.tcp.toCaller.Add(uint64(n))
	}
}

// limit returns the current idle timeout.
func (c *connection) limit() time.Duration {
	if c.halves.Load() > 0 {
		return c.relay.limits.HalfClosed
	}
	return c.relay.limits.Idle
}

func (c *connection) expire() {
	c.relay.tcp.expired.Add(1)
	c.reset()
}

// reset closes both sides with a reset, so that both see that the connection was not finished. It waits if another
// goroutine is doing so.
func (c *connection) reset() {
	c.broken.Do(func() {
		c.cut.Store(true)
		c.caller.end.Abort()
		c.target.reset()
	})
}

// leave closes both sides. The stack may still have data to send to the client, so the connection counts in the quota
// until that has arrived, for at most Limits.Leaving.
func (c *connection) leave() {
	c.target.Close()
	l := &leaving{connection: c, counted: true}
	entry := waiter.NewFunctionEntry(waiter.EventHUp, func(waiter.EventMask) { l.look() })
	c.caller.queue.EventRegister(&entry)
	patience := tcpip.TCPUserTimeoutOption(c.relay.limits.Leaving)
	_ = c.caller.end.SetSockOpt(&patience) // cannot fail on TCP
	c.caller.end.Close()
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
	state := l.caller.state()
	waits := state == tcp.StateTimeWait
	if !waits && state != tcp.StateClose && state != tcp.StateError {
		return
	}
	r := l.relay
	if l.counted {
		l.counted = false
		r.connections.give(l.m, l.attempt.caller)
	}
	switch {
	case waits && !l.waits && !l.ending:
		if l.waits = r.timeWait.take(); !l.waits {
			l.ending = true
			go l.caller.end.Abort() // not here: the stack may hold its locks
		}
	case !waits && l.waits:
		l.waits = false
		r.timeWait.give()
	}
}
