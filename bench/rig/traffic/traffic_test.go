package traffic

import (
	"encoding/binary"
	"math"
	"net/netip"
	"testing"
	"time"

	"strait.dev/strait/packet"
)

func TestCountsAreDifferences(t *testing.T) {
	t.Parallel()
	before := Count{At: time.Second, Stream: 10, Datagrams: 20, Bytes: 30, Overflows: 1}
	after := Count{At: 3 * time.Second, Stream: 110, Datagrams: 220, Bytes: 330, Overflows: 5}
	want := Count{At: 2 * time.Second, Stream: 100, Datagrams: 200, Bytes: 300, Overflows: 4}
	if got := after.Since(before); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestQuantilesOfKnownLatencies(t *testing.T) {
	t.Parallel()
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

func TestNewFlowsAreUnique(t *testing.T) {
	t.Parallel()
	first := netip.MustParseAddr("10.0.1.129")
	seen := make(map[netip.AddrPort]bool)
	for i := range uint32(3 * portsEach) {
		from := source(first, i)
		if seen[from] || from.Port() < firstPort {
			t.Fatalf("flow %d has source %v", i, from)
		}
		seen[from] = true
	}
	last, again := source(first, newAddresses*portsEach-1), source(first, newAddresses*portsEach)
	if want := netip.MustParseAddrPort("10.0.1.254:65535"); last != want {
		t.Errorf("the last flow has source %v, want %v", last, want)
	}
	if again != source(first, 0) {
		t.Errorf("the last flow is followed by source %v, not the first", again)
	}
}

func TestOnlyResponsesOfTheTrialCount(t *testing.T) {
	t.Parallel()
	n := &unboundListener{from: netip.MustParseAddrPort("10.0.2.9:7004"), begin: []byte("trial-02")}
	response := func(from string, payload string) []byte {
		b := udpPacket(netip.MustParseAddrPort("10.0.1.129:2000"), []byte(payload))
		setSource(b, netip.MustParseAddrPort(from))
		clear(b[10:12]) // as the kernel does
		binary.BigEndian.PutUint16(b[10:], ^packet.Sum(b[:packet.IPv4HeaderLen], 0))
		return b
	}
	const right = "10.0.2.9:7004"
	for name, c := range map[string]struct {
		packet []byte
		want   bool
	}{
		"the response":          {response(right, "trial-02 and more"), true},
		"of an earlier trial":   {response(right, "trial-01"), false},
		"from another port":     {response("10.0.2.9:7003", "trial-02"), false},
		"from another address":  {response("10.0.2.8:7004", "trial-02"), false},
		"too short for a trial": {response(right, "trial"), false},
		"truncated in transit":  {response(right, "trial-02")[:30], false},
		"nothing":               {nil, false},
	} {
		if got := n.isResponse(c.packet); got != c.want {
			t.Errorf("%s: accepted as a response: %v", name, got)
		}
	}
	b := response(right, "odd")
	var ip packet.IP
	if fault := packet.Parse(b, &ip); fault != packet.FaultNone {
		t.Fatal(fault)
	}
	if sum, ok := packet.UpperChecksum(b, &ip); !ok || sum != binary.BigEndian.Uint16(ip.Upper(b)[6:]) {
		t.Errorf("checksum %#x of %x", sum, b)
	}
}
