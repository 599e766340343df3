package result

import (
	"fmt"
	"math"

	"golang.org/x/perf/benchmath"
)

// Alpha is the significance level.
const Alpha = 0.05

// Difference is one figure in two runs.
type Difference struct {
	Key
	Old Stats   `json:"old"`
	New Stats   `json:"new"`
	P   float64 `json:"p"` // of the Mann-Whitney U test; 1 where all values are equal
}

// Significant reports whether the difference is statistically significant.
func (d Difference) Significant() bool { return d.P < Alpha }

// Better reports whether the new run is better in this figure, significant or not.
func (d Difference) Better() bool {
	return (d.New.Median > d.Old.Median) == MoreIsBetter(d.Unit) && d.New.Median != d.Old.Median
}

// Delta returns the change of the median as a fraction of the old one, which may be infinite.
func (d Difference) Delta() float64 {
	switch {
	case d.New.Median == d.Old.Median:
		return 0
	case d.Old.Median == 0:
		return math.Inf(int(math.Copysign(1, d.New.Median)))
	}
	return d.New.Median/d.Old.Median - 1
}

// TooFewError means that no result of a comparison could be significant.
type TooFewError struct {
	Key      Key
	Old, New int // samples
}

func (e *TooFewError) Error() string {
	return fmt.Sprintf("%s, %s: %d and %d samples are too few: no difference could be significant (p < %v); run both with -n %d or more",
		e.Key, e.Key.Unit, e.Old, e.New, Alpha, Enough)
}

// Enough is the number of samples on each side with which a comparison can be significant:
// 4, because the most extreme of the C(8,4) = 70 equally probable orders has p = 2/70; with
// 3 and 3 it is 2/20.
const Enough = 4

// enough reports whether the most extreme order of that many samples has a p below Alpha.
// There are C(a+b, a) orders, two of them extreme.
func enough(a, b int) bool {
	if a == 0 || b == 0 {
		return false
	}
	orders := 1.0
	for i := 1; i <= a; i++ {
		orders *= float64(b+i) / float64(i)
	}
	return 2/orders < Alpha
}

// Compare tests all figures that two runs share, with the Mann-Whitney U test, which makes
// no assumption about the distribution of values. A figure with too few samples, such as one
// that a run has once, never differs significantly; if there are only such figures, Compare
// returns a TooFewError. Figures of only one run are ignored.
func Compare(old, new *Run) ([]Difference, error) {
	keys, before := collect(old.Samples)
	_, after := collect(new.Samples)
	var all []Difference
	var few error // of the first figure
	testable := false
	for _, k := range keys {
		a, b := before[k], after[k]
		if b == nil {
			continue
		}
		if enough(len(a), len(b)) {
			testable = true
		} else if few == nil {
			few = &TooFewError{k, len(a), len(b)}
		}
		all = append(all, difference(k, a, b))
	}
	switch {
	case all == nil:
		return nil, fmt.Errorf("the runs have no figure in common: compare runs of the same tests")
	case !testable:
		return nil, few
	}
	return all, nil
}

func difference(k Key, a, b []float64) Difference {
	t := benchmath.DefaultThresholds
	t.CompareAlpha = Alpha
	d := Difference{Key: k, Old: statsOf(a), New: statsOf(b)}
	d.P = benchmath.AssumeNothing.Compare(benchmath.NewSample(a, &t), benchmath.NewSample(b, &t)).P
	return d
}
