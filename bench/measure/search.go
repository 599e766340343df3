package measure

import (
	"fmt"
	"math"
	"slices"
)

// The goals of a loss search, as fractions of the offered packets.
const (
	NDR = 0.0   // no drop rate, RFC 2544 section 26.1
	PDR = 0.005 // partial drop rate
)

// Trial is the result of one offered load.
type Trial struct {
	Rate     float64 // offered packets per second
	Wanted   int     // packets to be sent at that rate
	Sent     int     // packets that the sender's kernel accepted
	Received int     // of the sent packets
}

// Loss returns the fraction of the wanted packets that did not arrive: a path, or a sender,
// that cannot keep up has not carried the rate.
func (t Trial) Loss() float64 {
	if t.Wanted <= 0 {
		return 1
	}
	return max(0, float64(t.Wanted-t.Received)/float64(t.Wanted))
}

// Limits bound a search.
type Limits struct {
	Start      float64 // packets per second of the first trial
	Resolution float64 // end when a goal is known to this fraction of its rate, for instance 0.05
	Trials     int     // end after this many
	// Attempts is how often a rate is tried that loses more than the strictest goal allows:
	// the best trial counts. Otherwise a machine that is busy for a moment would fail a
	// rate for the whole search. 0 = once.
	Attempts int
}

// Search finds the highest rates that a path carries with a loss of at most each goal;
// there must be at least one goal. It doubles or halves until one rate passes and one
// fails, and then bisects between them on a logarithmic scale; every trial counts for every
// goal. A rate that passes above one that failed does not count: the path must carry every
// lower rate, too. 0 = no trial passed.
func Search(goals []float64, l Limits, trial func(rate float64) (Trial, error)) ([]float64, error) {
	if l.Start <= 0 || l.Resolution <= 0 || l.Trials <= 0 {
		return nil, fmt.Errorf("a search needs a start, a resolution and a number of trials, not %+v", l)
	}
	brackets := make([]bracket, len(goals))
	for i := range brackets {
		brackets[i] = bracket{goal: goals[i], failed: math.Inf(1)}
	}
	strictest := slices.Min(goals)
	for left := l.Trials; left > 0; {
		rate, ok := nextRate(brackets, l)
		if !ok {
			break
		}
		loss := math.Inf(1)
		for attempt := 0; attempt < max(l.Attempts, 1) && left > 0 && loss > strictest; attempt++ {
			t, err := trial(rate)
			if err != nil {
				return nil, err
			}
			loss = min(loss, t.Loss())
			left--
		}
		for i := range brackets {
			brackets[i].learn(rate, loss)
		}
	}
	found := make([]float64, len(goals))
	for i, b := range brackets {
		found[i] = b.passed
	}
	return found, nil
}

// bracket is the state of the search for one goal.
type bracket struct {
	goal           float64
	passed, failed float64   // highest rate that passed below the lowest that failed
	passes         []float64 // all rates that passed
}

func (b *bracket) learn(rate, loss float64) {
	if loss <= b.goal {
		b.passes = append(b.passes, rate)
	} else {
		b.failed = min(b.failed, rate)
	}
	b.passed = 0
	for _, p := range b.passes {
		if p < b.failed {
			b.passed = max(b.passed, p)
		}
	}
}

func (b *bracket) known(resolution float64) bool {
	return b.passed > 0 && b.failed <= b.passed*(1+resolution)
}

// nextRate returns the rate for the first goal that is not known; ok is false if all are.
func nextRate(brackets []bracket, l Limits) (rate float64, ok bool) {
	for _, b := range brackets {
		switch {
		case b.known(l.Resolution):
			continue
		case b.passed == 0 && math.IsInf(b.failed, 1):
			return l.Start, true
		case b.passed == 0:
			return b.failed / 2, true
		case math.IsInf(b.failed, 1):
			return b.passed * 2, true
		}
		return math.Sqrt(b.passed * b.failed), true
	}
	return 0, false
}
