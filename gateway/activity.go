package gateway

import (
	"sync/atomic"
	"time"
)

const (
	// activeFor is how long a node counts as active after its last packet of data.
	activeFor = 2 * time.Second
	// activityGrain is the time in which further packets are not noted: most packets only read.
	activityGrain = 100 * time.Millisecond
)

// activity is when data last crossed. Failures are searched for more often while it does. Safe for concurrent use.
type activity struct{ last atomic.Int64 } // Unix time in ns; 0 = never

// mark notes that data crosses, and reports whether that was not noted a moment ago.
func (a *activity) mark(now time.Time) (noted bool) {
	at := now.UnixNano()
	if since := at - a.last.Load(); since >= 0 && since < int64(activityGrain) {
		return false
	}
	a.last.Store(at) // also after the machine's clock was set back
	return true
}

// active reports whether data has crossed recently.
func (a *activity) active(now time.Time) bool {
	since := now.UnixNano() - a.last.Load()
	return since >= 0 && since < int64(activeFor)
}

// mark notes that data from or to a node crosses.
func (g *Gateway) mark(n *Node, now time.Time) {
	if !g.traced && n.activity.mark(now) {
		g.activity.mark(now)
	}
}

// MarkActive notes that data of the host crosses: of connections that it relays. Its control packets are none.
func (o *Origin) MarkActive(now time.Time) { o.g.activity.mark(now) }

// Active reports whether data has crossed within the last 2 s.
func (g *Gateway) Active(now time.Time) bool { return g.activity.active(now) }
