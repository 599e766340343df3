package budget

import (
	"testing"
	"time"
)

// written returns how many requests of a size pass within a time, if there is always one more.
func written(size int, within time.Duration) (requests int) {
	var w Writes
	begun := time.Unix(1000, 0)
	for now := begun; now.Sub(begun) < within; {
		wait := w.Take(size, now)
		if wait == 0 {
			requests++
		}
		now = now.Add(wait)
	}
	return requests
}

func TestWritesHaveABurstAndThenARate(t *testing.T) {
	t.Parallel()
	const minutes = 10
	if n, most := written(100, minutes*time.Minute), burstRequests+minutes*60*requestsPerSecond; n < most-1 || n > most+1 {
		t.Errorf("%d small requests pass, want %d", n, most)
	}
	const large = 1 << 20
	if n, most := written(large, minutes*time.Minute), (burstBytes+minutes*60*bytesPerSecond)/large; n < most || n > most+1 {
		t.Errorf("%d MiB pass, want %d", n, most)
	}
}

func TestEventsHaveABurstAndThenARate(t *testing.T) {
	t.Parallel()
	var w Writes
	now, n := time.Unix(1000, 0), 0
	for range time.Hour / time.Second {
		for w.Event(now) {
			n++
		}
		now = now.Add(time.Second)
	}
	if most := burstEvents + int(time.Hour/eventEvery); n < most-1 || n > most+1 {
		t.Errorf("within an hour %d events are written, want %d", n, most)
	}
}
