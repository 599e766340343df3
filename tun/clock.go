package tun

import (
	"log/slog"
	"sync"
	"time"
)

const (
	// clockGap is the time between two readings that proves that the process did not run: it was stopped
	// (SIGSTOP), its machine was paused, or it got no processor.
	clockGap = 500 * time.Millisecond
	// clockPause is the gap after which what the process knew is worthless: the clock does not stand still, and
	// every link is down until probes cross.
	clockPause = 10 * time.Second
)

// clock is the clock of all decisions about links. It stands still while the process does: a link is not down, and
// a probe is not lost, because this end could not receive. A gap of clockPause or more counts as time. Since each
// decision reads the clock, none comes before the discovery of a gap. Safe for concurrent use; not for the packet path.
type clock struct {
	log *slog.Logger

	mu      sync.Mutex    // protects the fields below
	read    time.Time     // the last reading, of the system's monotonic clock
	stopped time.Duration // how long the clock stood still
	resumed time.Time     // the end of the last gap, of the system's clock
	before  time.Duration // stopped without the last gap
	gaps    Gaps
}

// Gaps are the times in which the process did not run, longer than half a second each.
type Gaps struct {
	Count   uint64
	Longest time.Duration
}

func newClock(log *slog.Logger) *clock { return &clock{log: log, read: time.Now()} }

// now returns the time without all gaps so far.
func (c *clock) now() time.Time {
	c.mu.Lock()
	now := time.Now() // not earlier: a gap while waiting for mu is one too
	gap := now.Sub(c.read)
	c.read = now
	if gap > clockGap {
		if gap < clockPause {
			c.before, c.stopped, c.resumed = c.stopped, c.stopped+gap, c.read
		}
		c.gaps.Count++
		c.gaps.Longest = max(c.gaps.Longest, gap)
	}
	now = now.Add(-c.stopped)
	c.mu.Unlock()
	switch {
	case gap >= clockPause:
		c.log.Warn("the process did not run; links are down until a probe is answered", "for", gap)
	case gap > clockGap:
		c.log.Warn("the process did not run; links keep the state that they had", "for", gap)
	}
	return now
}

// converted returns a past time of the system's clock as one of this clock. All times in the last gap are one. Of
// times before it, gaps before the last count as time.
func (c *clock) converted(at time.Time) time.Time {
	now := time.Now()
	at = now.Add(-now.Sub(at)) // monotonic, which the time of a handshake is not
	c.mu.Lock()
	defer c.mu.Unlock()
	if !at.Before(c.resumed) {
		return at.Add(-c.stopped)
	}
	if stood := c.resumed.Add(-c.stopped); at.Add(-c.before).After(stood) {
		return stood
	}
	return at.Add(-c.before)
}

// gapsSoFar returns how often, and for how long at most, the process did not run.
func (c *clock) gapsSoFar() Gaps {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gaps
}
