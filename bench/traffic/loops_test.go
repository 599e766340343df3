//go:build nightly

package traffic

import (
	"net/netip"
	"testing"
	"time"
)

func TestEveryLoopHasOneRequestInFlight(t *testing.T) {
	near, far := listen(t), listen(t)
	const parallel = 4
	asked := make(map[uint32]int)
	echo, err := NewEcho(far, netip.AddrPort{}, func(b []byte) bool {
		m, _ := MarkOf(b)
		asked[m.Number]++ // on the echo's only goroutine
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	const hold = 10 * time.Millisecond
	p := &Path{From: near, To: newRelay(t, far.LocalAddr(), 0, func() { time.Sleep(hold) }), Quiet: time.Second}
	got, err := p.Loops([][]byte{make([]byte, 64), make([]byte, 64), make([]byte, 64), make([]byte, 64)}, 300*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	echo.Close()
	// The relay delays every datagram in turn, so at most one arrives per 10 ms.
	n := got.Latencies.Count()
	if n == 0 || n > 30 || got.Lost != 0 || got.Rate > 1/hold.Seconds() {
		t.Errorf("%d responses, %v per second, lost %v", n, got.Rate, got.Lost)
	}
	if least := got.Latencies.At(0); least < hold*998/1000 {
		t.Errorf("a response after %v", least)
	}
	total := 0
	for i := range uint32(parallel) {
		total += asked[i]
	}
	if len(asked) != parallel || total < n || total > n+parallel {
		t.Errorf("sent %v, answered %d", asked, n)
	}
}

func TestLoopContinuesAfterALoss(t *testing.T) {
	near, far := listen(t), listen(t)
	n := 0
	echo, err := NewEcho(far, netip.AddrPort{}, func([]byte) bool { n++; return n != 3 })
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	p := &Path{From: near, To: far.LocalAddr(), Quiet: 5 * time.Millisecond}
	got, err := p.Loops([][]byte{make([]byte, 64)}, 500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if got.Latencies.Count() < 3 || got.Lost == 0 {
		t.Errorf("%d responses, lost %v", got.Latencies.Count(), got.Lost)
	}
}
