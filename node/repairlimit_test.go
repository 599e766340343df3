package node

import (
	"testing"
	"time"
)

func TestTenRepairsAMinuteNeverWait(t *testing.T) {
	t.Parallel()
	var f repairLimiter
	now := time.Unix(1_000_000, 0)
	for range 100 {
		if wait := f.wait(now); wait > 0 {
			t.Fatalf("a repair must wait %v", wait)
		}
		f.repaired(now)
		now = now.Add(time.Minute / 10)
	}
}

func TestContinuousRepairsAreOnePerInterval(t *testing.T) {
	t.Parallel()
	var f repairLimiter
	start := time.Unix(1_000_000, 0)
	repairs := 0
	for now := start; now.Before(start.Add(time.Minute)); now = now.Add(100 * time.Millisecond) {
		if f.wait(now) == 0 {
			f.repaired(now)
			repairs++
		}
	}
	if want := repairBurst + int(time.Minute/repairInterval) - 1; repairs != want {
		t.Errorf("%d repairs in a minute, want %d", repairs, want)
	}
	if wait := f.wait(start.Add(time.Hour)); wait > 0 {
		t.Errorf("after an hour without repairs a repair waits %v", wait)
	}
}
