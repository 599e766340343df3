//go:build linux

package node

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"strait.dev/strait/internal/ratelimit"
)

// Report is the result of one run. Each new desired state causes at least one; the end of a
// failure and a change of takeovers cause one without operations.
type Report struct {
	// Done is the list of completed operations, up to the error if there is one.
	Done []Operation

	// Repair is true if another program changed Strait's configuration.
	Repair bool

	// Gone is true if the desired state is empty and nothing is left.
	Gone bool

	// Fight is true if repairs have become so frequent that further ones are delayed.
	Fight bool

	// Takeovers are the desired routes that overlap destinations of other programs.
	Takeovers []Takeover

	Err error
}

const (
	// settle is how long changes are collected, so that a burst of them causes one run.
	settle = 50 * time.Millisecond
	// resync is how often the kernel is read without a notification.
	resync = time.Minute
	// The time to the next try after an error, doubled each time.
	retryFirst = time.Second
	retryLast  = 30 * time.Second
	// When another program undoes repairs again and again, so many are done at once, and then one
	// for each interval: the two must not change the kernel in a tight loop.
	repairBurst    = 5
	repairInterval = 5 * time.Second
)

// Keep brings the kernel to the latest desired state and repairs it until ctx ends. It
// leaves the configuration in place then, and TAP devices are served until Close. Before
// the first desired state it changes nothing. An invalid state is reported, and the
// previous one stays in force. report is called from this goroutine. Keep returns an error
// if the kernel cannot be watched at the start. It may be called once.
func (k *Kernel) Keep(ctx context.Context, desired <-chan Desired, report func(Report)) error {
	if err := k.events.listen(); err != nil {
		return err
	}
	newest := make(chan Desired, 1)
	var spreading sync.WaitGroup
	defer spreading.Wait()
	spreading.Go(func() { k.spreadFirst(ctx, desired, newest) })
	c := keeper{report: report, ahead: k.nexthops.takeDone, achieve: func(d Desired) ([]Operation, []Takeover, error) {
		done, over, err := k.achieve(d)
		links := maps.Clone(k.links)
		k.events.links.Store(&links)
		return done, over, err
	}}
	c.keep(ctx, newest, k.events.changed)
	return nil
}

// spreadFirst changes the groups of each desired state as soon as it arrives, and passes it on: a
// gateway that is gone must not get packets until the kernel has been read, which takes long on
// a node with many routes.
func (k *Kernel) spreadFirst(ctx context.Context, desired <-chan Desired, newest chan Desired) {
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-desired:
			if d.Validate() == nil { // otherwise the keeper reports it
				k.nexthops.spread(d)
			}
			select {
			case <-newest: // superseded
			default:
			}
			newest <- d
		}
	}
}

// keeper is the state of Keep.
type keeper struct {
	achieve func(Desired) ([]Operation, []Takeover, error) // returns the operations done
	ahead   func() []Operation                             // operations done for the newest desired state before a run; nil: none
	report  func(Report)
	timer   *time.Timer // to the next run
	due     time.Time   // when the timer fires
	desired *Desired    // nil before the first one
	fresh   bool        // not achieved yet
	repairs ratelimit.Bucket
	trouble bool          // the last report was an error or a fight
	retry   time.Duration // to the next try; 0 after success
	failed  time.Time
	over    []Takeover // as reported last
}

// keep achieves the desired state, and again after each change, until ctx ends.
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
			// Never later than already planned: continuous changes must not delay the run
			// forever.
			if at := c.earliest(time.Now()); at.Before(c.due) {
				c.runAt(at)
			}
		case <-c.timer.C:
			c.run()
		}
	}
}

// earliest returns when to run after a change.
func (c *keeper) earliest(now time.Time) time.Time {
	return now.Add(max(settle, c.repairs.Wait(now, repairInterval, repairBurst), c.failed.Add(c.retry).Sub(now)))
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
	done, over, err := c.achieve(*c.desired)
	var ahead []Operation
	if c.ahead != nil {
		ahead = c.ahead()
	}
	now := time.Now()
	if err != nil {
		over = c.over // not known
	}
	// If there are operations ahead of this state, it is not the newest: the difference is not of another program.
	r := Report{Done: slices.Concat(ahead, done), Repair: !c.fresh && len(ahead) == 0, Gone: c.desired.Nothing && err == nil, Takeovers: over, Err: err}
	if r.Repair && len(done) > 0 {
		c.repairs.Take(now, repairInterval, repairBurst)
		r.Fight = !c.repairs.Has(now, repairInterval, repairBurst)
	}
	if err != nil {
		c.failed, c.retry = now, min(max(2*c.retry, retryFirst), retryLast)
		c.runAt(now.Add(c.retry))
	} else {
		c.fresh, c.retry = false, 0
	}
	if err != nil || len(done) > 0 || !r.Repair || c.trouble || !slices.Equal(over, c.over) {
		c.trouble, c.over = err != nil || r.Fight, over
		c.report(r)
	}
}

// achieve brings the kernel to the desired state, and returns the operations done.
func (k *Kernel) achieve(d Desired) ([]Operation, []Takeover, error) {
	observed, err := k.observeFor(d)
	if err != nil {
		return nil, nil, err
	}
	done, err := k.Apply(Plan(d, observed))
	return done, takeovers(d, observed), err
}
