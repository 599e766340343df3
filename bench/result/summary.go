package result

import (
	"maps"
	"slices"
)

// Key identifies a figure: the samples with the same key are its repetitions.
type Key struct {
	Test    string `json:"test"`
	Mode    string `json:"mode,omitempty"`
	Subject string `json:"subject,omitempty"`
	Unit    string `json:"unit"`
}

// String formats the key without its unit.
func (k Key) String() string {
	name := k.Test
	if k.Mode != "" {
		name += " " + k.Mode
	}
	if k.Subject != "" {
		name += " " + k.Subject
	}
	return name
}

// Summary is the statistics of all repetitions of one figure.
type Summary struct {
	Key
	Stats
}

// Stats are the statistics of values.
type Stats struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
}

// statsOf sorts the values, of which there must be at least one.
func statsOf(v []float64) Stats {
	slices.Sort(v)
	n := len(v)
	return Stats{Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1], N: n}
}

// Spread is the range of the values as a fraction of the median, 0 if that is 0.
func (s Stats) Spread() float64 {
	if s.Median == 0 {
		return 0
	}
	return (s.Max - s.Min) / s.Median
}

// Medians summarises samples, in the order of the first sample of each figure; units of one
// sample are sorted by name.
func Medians(samples []Sample) []Summary {
	keys, values := collect(samples)
	all := make([]Summary, len(keys))
	for i, k := range keys {
		all[i] = Summary{k, statsOf(values[k])}
	}
	return all
}

// collect groups the values by figure.
func collect(samples []Sample) (keys []Key, values map[Key][]float64) {
	values = make(map[Key][]float64)
	for _, s := range samples {
		for _, unit := range slices.Sorted(maps.Keys(s.Metrics)) {
			k := Key{s.Test, s.Mode, s.Subject, unit}
			if values[k] == nil {
				keys = append(keys, k)
			}
			values[k] = append(values[k], s.Metrics[unit])
		}
	}
	return keys, values
}
