package gateway

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"strait.dev/strait/internal/ratelimit"
)

// limits are those of one node.
type limits struct {
	limiter
	all ratelimit.Shared
}

func (l *limits) allow(src netip.Addr, now time.Time) bool { return l.limiter.allow(&l.all, src, now) }

var epoch = time.Unix(1_700_000_000, 0)

// allowed asks n times at intervals and counts what is allowed.
func allowed(l *limits, source func(i int) netip.Addr, n int, from time.Time, every time.Duration) (count int) {
	for i := range n {
		if l.allow(source(i), from.Add(time.Duration(i)*every)) {
			count++
		}
	}
	return count
}

func one(int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 1, 5}) }

// many are sources that all have a bucket of their own.
func many(i int) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 10<<24|uint32(i%limiterSources))
	return netip.AddrFrom4(b)
}

func TestI4_OneSourceHasItsBurstAndItsRate(t *testing.T) {
	t.Parallel()
	var l limits
	if n := allowed(&l, one, 1000, epoch, 0); n != sourceErrorBurst {
		t.Errorf("%d at once, want %d", n, sourceErrorBurst)
	}
	// Emptied, it gives one error every 20 ms, however often it is asked.
	if n := allowed(&l, one, 10_000, epoch.Add(time.Millisecond), time.Millisecond); n != int(10*time.Second/sourceErrorInterval) {
		t.Errorf("%d in ten seconds, want %d", n, int(10*time.Second/sourceErrorInterval))
	}
	if n := allowed(&l, one, 1000, epoch.Add(time.Hour), 0); n != sourceErrorBurst {
		t.Errorf("%d at once after a rest, want %d", n, sourceErrorBurst)
	}
}

func TestI4_AllSourcesTogetherHaveABurstAndARate(t *testing.T) {
	t.Parallel()
	var l limits
	if n := allowed(&l, many, 1000, epoch, 0); n != errorBurst {
		t.Errorf("%d at once, want %d", n, errorBurst)
	}
	if n := allowed(&l, many, 100_000, epoch.Add(100*time.Microsecond), 100*time.Microsecond); n != int(10*time.Second/errorInterval) {
		t.Errorf("%d in ten seconds, want %d", n, int(10*time.Second/errorInterval))
	}
}

func TestI4_ANoisySourceDoesNotSilenceAnother(t *testing.T) {
	t.Parallel()
	var l limits
	quiet := netip.AddrFrom4([4]byte{10, 0, 1, 6})
	for ms := range 5000 {
		now := epoch.Add(time.Duration(ms) * time.Millisecond)
		l.allow(one(0), now)
		if ms%100 == 0 && !l.allow(quiet, now) {
			t.Fatalf("silenced after %d ms", ms)
		}
	}
}

func TestI4_RefusedPacketsCostNothing(t *testing.T) {
	t.Parallel()
	var l limits
	allowed(&l, one, 10_000, epoch, 0)
	if n := allowed(&l, many, 1000, epoch, 0); n != errorBurst-sourceErrorBurst {
		t.Errorf("%d left for the others, want %d", n, errorBurst-sourceErrorBurst)
	}
}

func TestI4_SourcesOfBothFamiliesAreLimited(t *testing.T) {
	t.Parallel()
	var l limits
	six := func(int) netip.Addr { return netip.AddrFrom16([16]byte{0xfd, 15: 5}) }
	if n := allowed(&l, six, 100, epoch, 0); n != sourceErrorBurst {
		t.Errorf("%d at once, want %d", n, sourceErrorBurst)
	}
}

// A clock that steps back must not stop errors for as long as it stepped.
func TestI4_TimeThatDoesNotMoveOnlyHoldsTheBurst(t *testing.T) {
	t.Parallel()
	var l limits
	allowed(&l, one, 100, epoch, 0)
	if l.allow(one(0), epoch) {
		t.Error("more than the burst at one moment")
	}
	if !l.allow(one(0), epoch.Add(sourceErrorInterval)) {
		t.Error("nothing after one interval")
	}
}
