package relay

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// smallBuffer is the size of the stack's buffers, each way, of a connection that came
// when there were many already, bytes.
const smallBuffer = 64 << 10

// connection is a TCP connection of which both sides stand.
//
//	both open ──one side ends──► half closed ──the other ends──► leaving ──► gone
//	    └──────────a reset, an error, idle too long, withdrawn─────────────► gone
//
// What one side sends is read only when the other one takes it, so neither is faster than
// the other, and each sees the window that the other leaves.
type connection struct {
	*attempt
	relay  *Relay
	target *target
	caller *stream

	idle   idle
	halves atomic.Int32 // that have ended
	broken sync.Once
	cut    atomic.Bool // it ended before both halves did
}

// serve copies until both sides have ended or one is broken.
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
	c.reset() // which may be under way on another goroutine: both have it behind them now
	c.relay.connections.give(c.m, c.attempt.caller)
}

// setOptions makes the stack notice when the caller is gone.
func (c *connection) setOptions() {
	end := c.caller.end
	end.SocketOptions().SetKeepAlive(true)
	idle, interval := tcpip.KeepaliveIdleOption(keepaliveIdle), tcpip.KeepaliveIntervalOption(keepaliveInterval)
	_ = end.SetSockOpt(&idle) // none of these can fail on TCP
	_ = end.SetSockOpt(&interval)
	_ = end.SetSockOptInt(tcpip.KeepaliveCountOption, keepaliveCount)
}

// half copies one way, and resets both sides if that goes wrong.
func (c *connection) half(copyAll func() error) {
	if err := copyAll(); err != nil {
		c.reset()
		return
	}
	c.halves.Add(1)
	c.idle.touch()
	c.idle.watch() // the limit is another one now
}

func (c *connection) toTarget() error {
	for {
		b, n, err := c.caller.receive()
		if err == nil {
			_, err = c.target.Write(b[:n])
		}
		giveBuffer(b)
		if err == io.EOF {
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
		if n == 0 { // the target has ended its half
			if err := c.caller.end.Shutdown(tcpip.ShutdownWrite); err != nil {
				return io.ErrClosedPipe
			}
			return nil
		}
		c.idle.touch()
		c.relay.tcp.toCaller.Add(uint64(n))
	}
}

// limit is how long nothing may move.
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

// reset ends both sides at once, so that both see that the connection was not finished.
// It waits if another goroutine is about it.
func (c *connection) reset() {
	c.broken.Do(func() {
		c.cut.Store(true)
		c.caller.end.Abort()
		c.target.reset()
	})
}

// leave closes both sides. The stack may still have something to send to the caller, so
// the connection keeps its room until that has arrived, Limits.Leaving at most.
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

// leaving is a connection of which only the stack knows.
type leaving struct {
	*connection

	mu      sync.Mutex
	counted bool // still taken
	waits   bool // in TIME-WAIT, and counted there
	ending  bool // TIME-WAIT was cut short
}

// look gives back what the connection needs no more.
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
