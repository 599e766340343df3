package relay

import (
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
)

// idle calls expired once nothing was touched for the time that limit returns. Touching it costs no timer. Safe for
// concurrent use.
type idle struct {
	clock   tcpip.Clock
	limit   func() time.Duration
	expired func()

	moved atomic.Int64 // time of the last touch, ns of the monotonic clock

	mu      sync.Mutex
	timer   tcpip.Timer
	stopped bool
}

// start starts the timer.
func (i *idle) start() {
	i.touch()
	i.watch()
}

func (i *idle) touch() { i.moved.Store(i.now()) }

func (i *idle) now() int64 { return sinceStart(i.clock) }

// sinceStart is the time of a monotonic clock in ns.
func sinceStart(c tcpip.Clock) int64 { return int64(c.NowMonotonic().Sub(tcpip.MonotonicTime{})) }

// watch checks whether the time is up, and schedules the next check. Call it again when the limit has changed.
func (i *idle) watch() {
	i.mu.Lock()
	left := i.limit() - time.Duration(i.now()-i.moved.Load())
	stopped := i.stopped
	if !stopped && left > 0 {
		if i.timer != nil {
			i.timer.Stop()
		}
		i.timer = i.clock.AfterFunc(left, i.watch)
	}
	i.mu.Unlock()
	if !stopped && left <= 0 {
		i.stop()
		i.expired()
	}
}

func (i *idle) stop() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped = true
	if i.timer != nil {
		i.timer.Stop()
	}
}
