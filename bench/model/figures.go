package model

import (
	"fmt"

	"strait.dev/strait/bench/result"
)

// command produces a run that the model can read.
const command = "strait bench --run '^(packet|socket|throughput)/' -o json --file RUN.json"

const cpuUnit = "CPU-ns/pkt"

// figures are the medians of a run, and the missing figures.
type figures struct {
	medians map[result.Key]float64
	missing []result.Key
}

func figuresOf(r *result.Run) *figures {
	f := &figures{medians: make(map[result.Key]float64)}
	for _, s := range result.Medians(r.Samples) {
		f.medians[s.Key] = s.Median
	}
	return f
}

// get returns the median of a figure. The model needs values greater than 0 only.
func (f *figures) get(test, mode, subject, unit string) float64 {
	k := result.Key{Test: test, Mode: mode, Subject: subject, Unit: unit}
	v := f.medians[k]
	if v <= 0 {
		f.missing = append(f.missing, k)
	}
	return v
}

// packet returns the time of a step for the packets of a load in ns: it grows linearly with
// the size between the two measured sizes.
func (f *figures) packet(l load, subject string) float64 {
	at := func(size int) float64 { return f.get(fmt.Sprintf("packet/size=%d", size), "", subject, "ns/op") }
	low, high := at(smallest), at(largest)
	return low + (high-low)*(l.bytes()-smallest)/(largest-smallest)
}

// complete returns an error if figures are missing.
func (f *figures) complete() error {
	if f.missing == nil {
		return nil
	}
	k := f.missing[0]
	return fmt.Errorf("the run has no %s of %s, and lacks %d figures in total: measure them with: %s", k.Unit, k, len(f.missing), command)
}
