package result

import (
	"maps"
	"slices"
)

// Key names what belongs together: all repetitions of one figure.
type Key struct {
	Test    string `json:"test"`
	Mode    string `json:"mode,omitempty"`
	Subject string `json:"subject,omitempty"`
	Unit    string `json:"unit"`
}

// String is the key without its unit.
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

// Summary is what all repetitions of one figure come to.
type Summary struct {
	Key
	Stats
}

// Stats are what some values come to.
type Stats struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
}

// statsOf sorts values, of which there is one at least.
func statsOf(v []float64) Stats {
	slices.Sort(v)
	n := len(v)
	return Stats{Median: (v[(n-1)/2] + v[n/2]) / 2, Min: v[0], Max: v[n-1], N: n}
}

// Spread is how far the values lie apart, as a part of the median. It is 0 where
// the median is.
func (s Stats) Spread() float64 {
	if s.Median == 0 {
		return 0
	}
	return (s.Max - s.Min) / s.Median
}

// Medians summarises samples, in the order in which each figure came first; units
// of one sample are sorted by name.
func Medians(samples []Sample) []Summary {
	keys, values := collect(samples)
	all := make([]Summary, len(keys))
	for i, k := range keys {
		all[i] = Summary{k, statsOf(values[k])}
	}
	return all
}

// Median finds the median of one figure. ok is false if there is no sample of it.
func Median(samples []Sample, k Key) (m float64, ok bool) {
	_, values := collect(samples)
	v := values[k]
	if len(v) == 0 {
		return 0, false
	}
	return statsOf(v).Median, true
}

// collect gathers the values of each figure.
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
