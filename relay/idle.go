package relay

import (
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
)

// idle calls expired once nothing has been touched for as long as limit says. Touching
// it costs no timer. Safe for concurrent use.
type idle struct {
	clock   tcpip.Clock
	limit   func() time.Duration
	expired func()

	moved atomic.Int64 // when it was touched last, ns of the monotonic clock

	mu      sync.Mutex
	timer   tcpip.Timer
	stopped bool
}

// start begins to count.
func (i *idle) start() {
	i.touch()
	i.watch()
}

func (i *idle) touch() { i.moved.Store(i.now()) }

func (i *idle) now() int64 { return int64(i.clock.NowMonotonic().Sub(tcpip.MonotonicTime{})) }

// watch looks whether the time is up, and when to look again. It is called anew when the
// limit has changed.
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
