package bench

import (
	"context"
	"time"
)

// Test is one figure, or several related ones.
type Test struct {
	Name    string // what is measured, for instance "packet/size=64"
	Subject string // the rung of the ladder
	Mode    string // the conditions; may be empty

	// measure runs one repetition. It starts and stops what it needs.
	measure func(context.Context, effort) (map[string]float64, error)
}

// String is the name that --run matches, as benchstat shows it.
func (t Test) String() string {
	name := t.Name
	if t.Mode != "" {
		name += "/mode=" + t.Mode
	}
	return name + "/subject=" + t.Subject
}

// effort is the duration of one repetition.
type effort struct {
	operation time.Duration // timing of one function
	trial     time.Duration // one offered load
	quiet     time.Duration // after which missing packets count as lost
	trials    int           // trials of one search
	precision float64       // of a search, as a fraction of the rate
	requests  int           // of one round trip test
	transfer  time.Duration // one TCP transfer, or closed loops
	peerings  int           // idle peerings
}

var (
	thorough = effort{
		operation: 50 * time.Millisecond, trial: 100 * time.Millisecond, quiet: 20 * time.Millisecond, trials: 20, precision: 0.05,
		requests: 500, transfer: 500 * time.Millisecond, peerings: 64,
	}
	quick = effort{
		operation: 5 * time.Millisecond, trial: 40 * time.Millisecond, quiet: 20 * time.Millisecond, trials: 12, precision: 0.2,
		requests: 100, transfer: 100 * time.Millisecond, peerings: 16,
	}
)

// tooBusy is the error of a test whose path carried nothing within the time limit.
type tooBusy struct{ error }

func (b tooBusy) Unwrap() error { return b.error }
