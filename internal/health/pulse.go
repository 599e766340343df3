package health

import (
	"fmt"
	"sync/atomic"
	"time"
)

// Pulse detects a loop that has stopped. The zero value is a loop that has not started, which is not an error. Safe for
// concurrent use.
type Pulse struct{ last atomic.Pointer[time.Time] }

// Beat records an iteration of the loop. now has a monotonic reading, so that a clock that is set is not mistaken for a pause.
func (p *Pulse) Beat(now time.Time) { p.last.Store(&now) }

// Missing returns an error if the last iteration is longer ago than patience.
func (p *Pulse) Missing(now time.Time, patience time.Duration) error {
	last := p.last.Load()
	if last == nil {
		return nil
	}
	if since := now.Sub(*last); since > patience {
		return fmt.Errorf("no iteration for %v, longer than %v", since.Round(time.Second), patience)
	}
	return nil
}
