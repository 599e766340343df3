package traffic

import (
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"

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

// datagrams are some of different size.
func datagrams() [][]byte {
	return [][]byte{make([]byte, MarkLen), make([]byte, 64), make([]byte, 1400)}
}

func TestAPathWithoutLossLosesNothing(t *testing.T) {
	near, far := listen(t), listen(t)
	counter, err := NewCounter(far)
	if err != nil {
		t.Fatal(err)
	}
	defer counter.Close()
	p := &Path{From: near, To: far.LocalAddr(), Quiet: time.Second}
	for range 3 { // each trial counts its own
		got := p.Trial(datagrams(), 5000, 100*time.Millisecond, counter)
		if got.Wanted != 500 || got.Sent == 0 || got.Received != got.Sent {
			t.Errorf("%+v", got)
		}
	}
}

func TestAKnownLossIsFound(t *testing.T) {
	near, far := listen(t), listen(t)
	counter, err := NewCounter(far)
	if err != nil {
		t.Fatal(err)
	}
	defer counter.Close()
	const every = 10
	p := &Path{From: near, To: newRelay(t, far.LocalAddr(), every, 0), Quiet: time.Second}
	got := p.Trial(datagrams(), 1000, 200*time.Millisecond, counter)
	if got.Wanted != 200 || got.Sent == 0 || got.Received != got.Sent-got.Sent/every {
		t.Errorf("every %dth is lost: %+v", every, got)
	}
	if got.Sent == got.Wanted && got.Loss() != 0.1 {
		t.Errorf("the loss is %v", got.Loss())
	}
}

func TestAKnownLatencyIsFound(t *testing.T) {
	near, far := listen(t), listen(t)
	echo, err := NewEcho(far, netip.AddrPort{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	const hold = 5 * time.Millisecond // each way
	p := &Path{From: near, To: newRelay(t, far.LocalAddr(), 0, hold), Quiet: time.Second}
	question := make([]byte, 64)
	got, err := p.Probe(func(int) []byte { return question }, 20, 10)
	if err != nil {
		t.Fatal(err)
	}
	if got.Lost != 0 || got.Latencies.Count() != 10 {
		t.Fatalf("lost %v, %d answers", got.Lost, got.Latencies.Count())
	}
	// Less than what the relay holds back is impossible, but for the histogram's 3
	// digits; a busy machine adds something.
	least, median := got.Latencies.At(0), got.Latencies.At(0.5)
	if least < 2*hold*998/1000 || median > 2*hold+time.Second {
		t.Errorf("the relay takes %v, found %v at least, median %v", 2*hold, least, median)
	}
}

func TestQuestionsThatNobodyAnswersAreLost(t *testing.T) {
	near, far := listen(t), listen(t)
	n := 0
	echo, err := NewEcho(far, netip.AddrPort{}, func([]byte) bool { n++; return n%4 != 0 })
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	p := &Path{From: near, To: far.LocalAddr(), Quiet: 100 * time.Millisecond}
	question := make([]byte, 64)
	got, err := p.Probe(func(int) []byte { return question }, 1000, 40)
	if err != nil {
		t.Fatal(err)
	}
	if got.Lost != 0.25 || got.Latencies.Count() != 30 || got.Lateness.Count() != 40 {
		t.Errorf("lost %v, %d answers, %d questions", got.Lost, got.Latencies.Count(), got.Lateness.Count())
	}
}

func TestMarksAreMended(t *testing.T) {
	near, far := listen(t), listen(t)
	counter, err := NewCounter(far)
	if err != nil {
		t.Fatal(err)
	}
	defer counter.Close()
	var mended []uint32
	p := &Path{From: near, To: far.LocalAddr(), Mend: func(b []byte) {
		m, _ := MarkOf(b)
		mended = append(mended, m.Trial)
	}}
	p.Trial(datagrams(), 1000, 10*time.Millisecond, counter)
	if len(mended) != 3 || mended[0] != counter.trial.Load() {
		t.Errorf("mended %v of trial %d", mended, counter.trial.Load())
	}
}

func TestAMarkSurvives(t *testing.T) {
	b := make([]byte, 20)
	m := Mark{7, 8, 9 * time.Second}
	m.Put(b)
	if got, ok := MarkOf(b); !ok || got != m || b[0]|b[1]|b[2]|b[3] != 0 {
		t.Errorf("put %+v, got %+v", m, got)
	}
	if _, ok := MarkOf(b[:MarkLen-1]); ok {
		t.Error("a mark in too few bytes")
	}
}
