package traffic

import (
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"

	"strait.dev/strait/bench/measure"
	"strait.dev/strait/test/wait"
	"strait.dev/strait/underlay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = netip.MustParseAddrPort("127.0.0.1:0")

func listen(t *testing.T) *underlay.Socket {
	t.Helper()
	s, err := underlay.Listen(loopback, underlay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// datagrams returns datagrams of different sizes.
func datagrams() [][]byte {
	return [][]byte{make([]byte, MarkLen), make([]byte, 64), make([]byte, 1400)}
}

// virtual is a clock that advances only by sleeping, after all due datagrams have arrived:
// so none is late, and no receive queue overflows.
type virtual struct {
	t       *testing.T
	now     time.Duration
	pace    measure.Pace
	arrived func(due int) bool // whether all of so many datagrams that can arrive have arrived
}

func (v *virtual) Now() time.Duration { return v.now }

func (v *virtual) SleepUntil(t time.Duration) {
	due := v.pace.Due(v.now)
	wait.Until(v.t, "all due datagrams have arrived", func() bool { return v.arrived(due) })
	v.now = max(v.now, t) + time.Microsecond // at the exact time, rounding would decide what is due
}

func TestAPathWithoutLossLosesNothing(t *testing.T) {
	t.Parallel()
	near, far := listen(t), listen(t)
	counter, err := NewCounter(far)
	if err != nil {
		t.Fatal(err)
	}
	defer counter.Close()
	p := &Path{From: near, To: far.LocalAddr(), Quiet: time.Second}
	const rate, packets = 5000, 500
	for range 3 { // each trial counts separately
		p.clock = &virtual{t: t, pace: measure.Pace{Rate: rate}, arrived: func(due int) bool {
			return int(counter.packets.Load()) == min(due, packets)
		}}
		got := p.Trial(datagrams(), rate, 100*time.Millisecond, counter)
		if got.Wanted != packets || got.Sent != packets || got.Received != packets {
			t.Errorf("%+v", got)
		}
	}
}

func TestAKnownLossIsFound(t *testing.T) {
	t.Parallel()
	near, far := listen(t), listen(t)
	counter, err := NewCounter(far)
	if err != nil {
		t.Fatal(err)
	}
	defer counter.Close()
	const rate, packets, every = 1000, 200, 10
	p := &Path{From: near, To: newRelay(t, far.LocalAddr(), every, nil), Quiet: time.Second}
	p.clock = &virtual{t: t, pace: measure.Pace{Rate: rate}, arrived: func(due int) bool {
		due = min(due, packets)
		return int(counter.packets.Load()) == due-due/every
	}}
	got := p.Trial(datagrams(), rate, 200*time.Millisecond, counter)
	if got.Wanted != packets || got.Sent != packets || got.Received != packets-packets/every || got.Loss() != 0.1 {
		t.Errorf("every %dth is lost: %+v, a loss of %v", every, got, got.Loss())
	}
}

func TestEveryRequestIsAnswered(t *testing.T) {
	t.Parallel()
	near, far := listen(t), listen(t)
	echo, err := NewEcho(far, netip.AddrPort{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	p := &Path{From: near, To: far.LocalAddr(), Quiet: time.Hour}
	request := make([]byte, 64)
	got, err := p.Probe(func(int) []byte { return request }, 1000, 40)
	if err != nil {
		t.Fatal(err)
	}
	if got.Lost != 0 || got.Latencies.Count() != 40 || got.Lateness.Count() != 40 {
		t.Errorf("lost %v, %d responses, %d requests", got.Lost, got.Latencies.Count(), got.Lateness.Count())
	}
}

func TestMarksKeepChecksumsValid(t *testing.T) {
	t.Parallel()
	near, far := listen(t), listen(t)
	counter, err := NewCounter(far)
	if err != nil {
		t.Fatal(err)
	}
	defer counter.Close()
	var corrected []uint32
	p := &Path{From: near, To: far.LocalAddr(), FixChecksum: func(b []byte) {
		m, _ := MarkOf(b)
		corrected = append(corrected, m.Trial)
	}}
	p.clock = &virtual{t: t, pace: measure.Pace{Rate: 1000}, arrived: func(int) bool { return true }}
	p.Trial(datagrams(), 1000, 10*time.Millisecond, counter)
	if len(corrected) != 3 || corrected[0] != counter.trial.Load() {
		t.Errorf("corrected %v of trial %d", corrected, counter.trial.Load())
	}
}

func TestMarkRoundTrip(t *testing.T) {
	t.Parallel()
	b := make([]byte, 20)
	m := Mark{7, 8, 9 * time.Second}
	m.Put(b)
	if got, ok := MarkOf(b); !ok || got != m || b[0]|b[1]|b[2]|b[3] != 0 {
		t.Errorf("put %+v, got %+v", m, got)
	}
	if _, ok := MarkOf(b[:MarkLen-1]); ok {
		t.Error("a mark was read from too few bytes")
	}
}
