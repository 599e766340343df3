package measure

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// What Latencies can tell apart: up to longest, to 3 digits.
const (
	longest = 10 * time.Second
	figures = 3
)

// Latencies collects how long responses took, from the moment the request was due:
// a request that was sent late because the path was busy counts with its wait
// (no coordinated omission). Not safe for concurrent use.
type Latencies struct {
	histogram *hdrhistogram.Histogram
}

// NewLatencies returns an empty collection.
func NewLatencies() *Latencies {
	return &Latencies{hdrhistogram.New(1, int64(longest), figures)}
}

// Record adds one response. Moments are of one clock.
func (l *Latencies) Record(due, answered time.Duration) {
	took := min(max(answered-due, 1), longest)
	_ = l.histogram.RecordValue(int64(took)) // in range
}

// Count is how many responses there were.
func (l *Latencies) Count() int { return int(l.histogram.TotalCount()) }

// At is the latency that a part of all responses, 0 to 1, did not exceed.
func (l *Latencies) At(part float64) time.Duration {
	return time.Duration(l.histogram.ValueAtQuantile(100 * part))
}

// quantiles by the unit they are reported in.
var quantiles = map[string]float64{"p50-ns": 0.5, "p90-ns": 0.9, "p99-ns": 0.99, "p99.9-ns": 0.999}

// Metrics are p50, p90, p99 and p99.9. It is an error if nothing was recorded.
func (l *Latencies) Metrics() (map[string]float64, error) {
	if l.Count() == 0 {
		return nil, fmt.Errorf("not one response came: the path is broken, or slower than %v", longest)
	}
	m := make(map[string]float64, len(quantiles))
	for unit, part := range quantiles {
		m[unit] = float64(l.At(part))
	}
	return m, nil
}
