//go:build nightly

package traffic

import (
	"net/netip"
	"testing"
	"time"
)

func TestAKnownLatencyIsFound(t *testing.T) {
	near, far := listen(t), listen(t)
	echo, err := NewEcho(far, netip.AddrPort{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	const hold = 5 * time.Millisecond // in each direction
	p := &Path{From: near, To: newRelay(t, far.LocalAddr(), 0, func() { time.Sleep(hold) }), Quiet: time.Second}
	request := make([]byte, 64)
	got, err := p.Probe(func(int) []byte { return request }, 20, 10)
	if err != nil {
		t.Fatal(err)
	}
	if got.Lost != 0 || got.Latencies.Count() != 10 {
		t.Fatalf("lost %v, %d responses", got.Lost, got.Latencies.Count())
	}
	// Less than the relay's delay is impossible, except for the histogram's 3 digits; a
	// busy machine adds some.
	least, median := got.Latencies.At(0), got.Latencies.At(0.5)
	if least < 2*hold*998/1000 || median > 2*hold+time.Second {
		t.Errorf("the relay's delay is %v, measured minimum %v, median %v", 2*hold, least, median)
	}
}

func TestUnansweredRequestsAreLost(t *testing.T) {
	near, far := listen(t), listen(t)
	n := 0
	echo, err := NewEcho(far, netip.AddrPort{}, func([]byte) bool { n++; return n%4 != 0 })
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	p := &Path{From: near, To: far.LocalAddr(), Quiet: 100 * time.Millisecond}
	request := make([]byte, 64)
	got, err := p.Probe(func(int) []byte { return request }, 1000, 40)
	if err != nil {
		t.Fatal(err)
	}
	if got.Lost != 0.25 || got.Latencies.Count() != 30 || got.Lateness.Count() != 40 {
		t.Errorf("lost %v, %d responses, %d requests", got.Lost, got.Latencies.Count(), got.Lateness.Count())
	}
}
