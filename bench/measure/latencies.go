package measure

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The range and precision of Latencies: up to longest, 3 significant digits.
const (
	longest = 10 * time.Second
	figures = 3
)

// Latencies collects the time from when a request was due until its response: a request
// that was sent late because the path was busy includes its wait (no coordinated omission).
// Not safe for concurrent use.
type Latencies struct {
	histogram *hdrhistogram.Histogram
}

// NewLatencies returns an empty collection.
func NewLatencies() *Latencies {
	return &Latencies{hdrhistogram.New(1, int64(longest), figures)}
}

// Record adds one response. Both times must be of the same clock.
func (l *Latencies) Record(due, answered time.Duration) {
	took := min(max(answered-due, 1), longest)
	_ = l.histogram.RecordValue(int64(took)) // in range
}

// Count returns the number of responses.
func (l *Latencies) Count() int { return int(l.histogram.TotalCount()) }

// At returns the latency that the given fraction of all responses, 0 to 1, did not exceed.
func (l *Latencies) At(part float64) time.Duration {
	return time.Duration(l.histogram.ValueAtQuantile(100 * part))
}

// quantiles maps units of reported metrics to quantiles.
var quantiles = map[string]float64{"p50-ns": 0.5, "p90-ns": 0.9, "p99-ns": 0.99, "p99.9-ns": 0.999}

// Metrics returns p50, p90, p99 and p99.9. It returns an error if nothing was recorded.
func (l *Latencies) Metrics() (map[string]float64, error) {
	if l.Count() == 0 {
		return nil, fmt.Errorf("no response arrived: the path is broken or slower than %v", longest)
	}
	m := make(map[string]float64, len(quantiles))
	for unit, part := range quantiles {
		m[unit] = float64(l.At(part))
	}
	return m, nil
}
