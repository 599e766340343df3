package traffic

import (
	"math"
	"testing"
	"time"
)

func TestCountsAreDifferences(t *testing.T) {
	before := Count{At: time.Second, Stream: 10, Datagrams: 20, Bytes: 30, Overflows: 1}
	after := Count{At: 3 * time.Second, Stream: 110, Datagrams: 220, Bytes: 330, Overflows: 5}
	want := Count{At: 2 * time.Second, Stream: 100, Datagrams: 200, Bytes: 300, Overflows: 4}
	if got := after.Since(before); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestQuantilesOfKnownLatencies(t *testing.T) {
	r := newRecorder()
	for i := 1; i <= 1000; i++ {
		r.record(time.Second, time.Second+time.Duration(i)*time.Microsecond)
	}
	l := r.latencies()
	if l.Count != 1000 {
		t.Errorf("%d latencies, want 1000", l.Count)
	}
	for name, q := range map[string]struct{ got, want time.Duration }{
		"p50": {l.P50, 500 * time.Microsecond}, "p90": {l.P90, 900 * time.Microsecond}, "p99": {l.P99, 990 * time.Microsecond},
		"p99.9": {l.P999, 999 * time.Microsecond}, "longest": {l.Max, 1000 * time.Microsecond},
	} {
		if math.Abs(float64(q.got-q.want)) > 0.01*float64(q.want) {
			t.Errorf("%s: %v, want %v", name, q.got, q.want)
		}
	}
}
