package userspace

import (
	"testing"
	"time"
)

func TestOnlyPersistentFailuresAreReported(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000, 0)
	for _, c := range []struct {
		name     string
		failures []time.Duration // after the start
		asked    time.Duration
		want     bool
	}{
		{"none", nil, time.Minute, false},
		{"one", []time.Duration{0}, time.Minute, false},
		{"for a moment", []time.Duration{0, time.Second, 9 * time.Second}, 10 * time.Second, false},
		{"for some time", []time.Duration{0, 5 * time.Second, 10 * time.Second}, 10 * time.Second, true},
		{"with pauses", []time.Duration{0, 29 * time.Second}, 30 * time.Second, true},
		{"over", []time.Duration{0, 10 * time.Second}, 40 * time.Second, false},
		{"recovered, and one more", []time.Duration{0, 10 * time.Second, time.Hour}, time.Hour, false},
	} {
		var tr sendFailures
		for _, at := range c.failures {
			tr.note(start.Add(at))
		}
		if got := tr.persists(start.Add(c.asked)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}
