package node

import (
	"context"
	"maps"
	"time"
)

// Report is what was done to the kernel, or could not be. There is one at least for
// everything that was desired, and one without operations when trouble is over.
type Report struct {
	// Done is what was changed, up to the error if there is one.
	Done []Operation

	// Repair is true where nothing else was desired than before: somebody else had
	// changed what is ours.
	Repair bool

	// Gone is true where nothing is desired, and nothing is left.
	Gone bool

	// Fight is true where that has happened so often that from now on repairs wait.
	Fight bool

	Err error
}

const (
	// settle is how long changes are collected, so that a burst of them is one.
	settle = 50 * time.Millisecond
	// resync is how often the kernel is read though it reported nothing.
	resync = time.Minute
	// The time to the next try after an error, doubled each time.
	retryFirst = time.Second
	retryLast  = 30 * time.Second
)

// Keep makes the kernel what is desired last, and keeps it so until ctx ends; what is
// there then stays, and TAP devices are served until Close. Before anything was desired
// nothing is changed. Something invalid is reported, and what was desired before stays in
// force. report is called from this goroutine. The error is of the beginning: the kernel
// cannot be watched. Keep may be called once.
func (k *Kernel) Keep(ctx context.Context, desired <-chan Desired, report func(Report)) error {
	if err := k.events.listen(); err != nil {
		return err
	}
	c := keeper{report: report, achieve: func(d Desired) ([]Operation, error) {
		done, err := k.achieve(d)
		links := maps.Clone(k.links)
		k.events.links.Store(&links)
		return done, err
	}}
	c.keep(ctx, desired, k.events.changed)
	return nil
}

// keeper is the state of Keep.
type keeper struct {
	achieve func(Desired) ([]Operation, error) // returns what it did
	report  func(Report)
	timer   *time.Timer // to the next run
	due     time.Time   // when that is
	desired *Desired    // nil before there is one
	fresh   bool        // it was not yet achieved
	fight   fight
	trouble bool          // the last report was of an error or a fight
	retry   time.Duration // to the next try; 0 after success
	failed  time.Time
}

// keep achieves what is desired, and does so again after each change, until ctx ends.
func (c *keeper) keep(ctx context.Context, desired <-chan Desired, changed <-chan struct{}) {
	c.timer = time.NewTimer(0)
	defer c.timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-desired:
			if err := d.Validate(); err != nil {
				c.report(Report{Err: err})
				continue
			}
			c.desired, c.fresh = &d, true
			c.runAt(time.Now())
		case <-changed:
			// Never later than it would be: changes without end must not put it off.
			if at := c.earliest(time.Now()); at.Before(c.due) {
				c.runAt(at)
			}
		case <-c.timer.C:
			c.run()
		}
	}
}

// earliest is when to run after something has changed.
func (c *keeper) earliest(now time.Time) time.Time {
	return now.Add(max(settle, c.fight.wait(now), c.failed.Add(c.retry).Sub(now)))
}

func (c *keeper) runAt(t time.Time) {
	c.due = t
	c.timer.Reset(time.Until(t))
}

func (c *keeper) run() {
	c.runAt(time.Now().Add(resync))
	if c.desired == nil {
		return
	}
	done, err := c.achieve(*c.desired)
	now := time.Now()
	r := Report{Done: done, Repair: !c.fresh, Gone: c.desired.Nothing && err == nil, Err: err}
	if r.Repair && len(done) > 0 {
		r.Fight = c.fight.repaired(now)
	}
	if err != nil {
		c.failed, c.retry = now, min(max(2*c.retry, retryFirst), retryLast)
		c.runAt(now.Add(c.retry))
	} else {
		c.fresh, c.retry = false, 0
	}
	if err != nil || len(done) > 0 || !r.Repair || c.trouble {
		c.trouble = err != nil || r.Fight
		c.report(r)
	}
}

// achieve brings the kernel to what is desired and returns what it did.
func (k *Kernel) achieve(d Desired) ([]Operation, error) {
	observed, err := k.Observe()
	if err != nil {
		return nil, err
	}
	return k.Apply(Plan(d, observed))
}
