package userspace

import (
	"sync/atomic"
	"time"
)

const (
	// persistent is how long failures have to go on before they are worth telling:
	// routes that move make a few.
	persistent = 10 * time.Second

	// forgotten is the time without failure after which trouble is over. Gateways are
	// probed every few seconds, so that it is noticed while it lasts.
	forgotten = 30 * time.Second
)

// trouble remembers since when sending fails now and then. One goroutine notes, any may
// ask.
type trouble struct{ first, last atomic.Int64 } // Unix times in nanoseconds; 0: never

func (t *trouble) note(now time.Time) {
	if now.UnixNano()-t.last.Load() >= int64(forgotten) {
		t.first.Store(now.UnixNano())
	}
	t.last.Store(now.UnixNano())
}

func (t *trouble) persists(now time.Time) bool {
	first, last := t.first.Load(), t.last.Load()
	return last-first >= int64(persistent) && now.UnixNano()-last < int64(forgotten)
}
