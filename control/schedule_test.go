package control

import (
	"slices"
	"testing"
	"time"
)

func TestAnAcceptedAnnouncementIsRepeatedEveryMinute(t *testing.T) {
	t.Parallel()
	var s schedule
	now := time.Unix(1000, 0)
	if !s.due(1, now) {
		t.Error("the first is not due at once")
	}
	s.done(1, true, now, 0)
	if s.due(1, now.Add(refresh-1)) || !s.due(1, now.Add(refresh)) {
		t.Error("the next is not due after a minute")
	}
	if !s.due(2, now.Add(1)) {
		t.Error("a changed one is not due at once")
	}
	s.done(2, true, now, 1)
	if s.due(2, now.Add(refresh*4/5-1)) || !s.due(2, now.Add(refresh*4/5)) {
		t.Error("jitter takes not a fifth of the time")
	}
}

func TestFailuresAreRepeatedEverLessOften(t *testing.T) {
	t.Parallel()
	var s schedule
	now := time.Unix(1000, 0)
	var waits []time.Duration
	for range 100 {
		s.done(1, false, now, 0)
		waits = append(waits, s.next.Sub(now))
	}
	if want := []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 30e9, 30e9}; !slices.Equal(waits[:len(want)], want) || waits[99] != lastRetry {
		t.Errorf("waited %v", waits)
	}
	s.done(1, true, now, 0)
	if s.done(1, false, now, 0); s.next.Sub(now) != firstRetry {
		t.Errorf("waits %v for the first failure after a success", s.next.Sub(now))
	}
}
