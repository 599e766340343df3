package gateway

import (
	"sync/atomic"
	"time"
)

const (
	// ActiveFor is how long a node, a gateway and a link count as active after their last packet of data.
	ActiveFor = 2 * time.Second
	// activityGrain is the time in which further packets are not noted: most packets only read.
	activityGrain = 100 * time.Millisecond
)

// activity is when data last crossed. Failures are searched for more often while it does. Safe for concurrent use.
type activity struct{ last atomic.Int64 } // Unix time in ns; 0 = never

// mark notes that data crosses. It reports whether that was not noted a moment ago, and whether none had crossed recently.
func (a *activity) mark(now time.Time) (noted, began bool) {
	at := now.UnixNano()
	since := at - a.last.Load()
	if since >= 0 && since < int64(activityGrain) {
		return false, false
	}
	a.last.Store(at) // also after the machine's clock was set back
	return true, since < 0 || since >= int64(ActiveFor)
}

// active reports whether data has crossed recently.
func (a *activity) active(now time.Time) bool {
	since := now.UnixNano() - a.last.Load()
	return since >= 0 && since < int64(ActiveFor)
}

// census counts the active nodes of a table: in each span of ActiveFor, those whose data crossed. Safe for concurrent use; while a span
// begins, the number may be wrong by a few.
type census struct {
	span  atomic.Int64    // the current one
	nodes [2]atomic.Int64 // of the current and the last one, by their lowest bit
}

// count counts a node in the current span, once.
func (c *census) count(n *Node, now time.Time) {
	span := c.enter(now)
	if n.counted.Swap(span) != span {
		c.nodes[span&1].Add(1)
	}
}

// active returns about how many nodes are active.
func (c *census) active(now time.Time) int64 {
	c.enter(now)
	return max(c.nodes[0].Load(), c.nodes[1].Load())
}

// enter begins the span of now, if it has not begun, and returns the current one.
func (c *census) enter(now time.Time) (span int64) {
	span = now.UnixNano() / int64(ActiveFor)
	last := c.span.Load()
	if span == last-1 { // another link has begun the next one, with a later time
		return last
	}
	if last != span && c.span.CompareAndSwap(last, span) {
		c.nodes[span&1].Store(0)
		if last != span-1 { // none crossed for a while, or the machine's clock was set
			c.nodes[1-span&1].Store(0)
		}
	}
	return span
}

// mark notes that data from or to a node crosses.
func (g *Gateway) mark(n *Node, now time.Time) {
	if g.traced {
		return
	}
	noted, began := n.activity.mark(now)
	if !noted {
		return
	}
	g.activity.mark(now)
	g.Table().census.count(n, now)
	if began {
		select {
		case g.woken <- n:
		default: // it learns the interval with its next probe
		}
	}
}

// MarkActive notes that data of the host crosses: of connections that it relays. Its control packets are none.
func (o *Origin) MarkActive(now time.Time) { o.g.activity.mark(now) }

// Active reports whether data has crossed within the last 2 s.
func (g *Gateway) Active(now time.Time) bool { return g.activity.active(now) }
