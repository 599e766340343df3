package bench

import (
	"context"
	"time"
)

// Test is one figure, or a few that belong together.
type Test struct {
	Name    string // what is measured: a path, for instance "packet/size=64"
	Subject string // the rung of the ladder
	Mode    string // the circumstances; may be empty

	// measure takes one repetition. It starts and ends whatever it needs.
	measure func(context.Context, effort) (map[string]float64, error)
}

// String is the name that --run is matched with, as benchstat will show it.
func (t Test) String() string {
	name := t.Name
	if t.Mode != "" {
		name += "/mode=" + t.Mode
	}
	return name + "/subject=" + t.Subject
}

// effort is how long one repetition may take.
type effort struct {
	operation time.Duration // timing of one function
	trial     time.Duration // one offer of packets
	quiet     time.Duration // after which what has not arrived is lost
	trials    int           // offers of one search
	precision float64       // of a search, as a part of the rate
	requests  int           // of one round trip test
	transfer  time.Duration // one TCP transfer, closed loops, a rate through lanes
	peerings  int           // idle ones
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

// tooBusy is the error of a test whose path carried nothing in the time that it had.
type tooBusy struct{ error }

func (b tooBusy) Unwrap() error { return b.error }
