package health

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Pulse tells whether a loop goes on turning. The zero value has not begun to, which is
// no reason for concern. It may be used concurrently.
type Pulse struct{ last atomic.Int64 } // nanoseconds since the epoch

// Beat says that the loop turns now.
func (p *Pulse) Beat(now time.Time) { p.last.Store(now.UnixNano()) }

// Missing is the error of a loop that has not turned for longer than patience.
func (p *Pulse) Missing(now time.Time, patience time.Duration) error {
	last := p.last.Load()
	if last == 0 {
		return nil
	}
	if since := now.Sub(time.Unix(0, last)); since > patience {
		return fmt.Errorf("nothing has been done for %v, longer than %v", since.Round(time.Second), patience)
	}
	return nil
}
