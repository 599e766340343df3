package underlay

import (
	"bytes"
	"fmt"
	"math/rand"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"strait.dev/strait/internal/raceflag"
)

// The ECN field as numbers, RFC 3168 section 5.
const (
	notECT = 0b00
	ect1   = 0b01
	ect0   = 0b10
	ce     = 0b11
)

// withECN opens a socket that is told the ECN field.
func withECN(tb testing.TB, addr netip.AddrPort, o Options) *Socket {
	tb.Helper()
	o.ECN = true
	s := open(tb, addr, o)
	if !s.Features().ECN {
		tb.Fatal("the kernel does not tell the ECN field of what arrives")
	}
	return s
}

// marked is a datagram and its ECN field.
type marked struct {
	datagram []byte
	ecn      uint8
}

// receiveMarked fills r until it has so many datagrams.
func receiveMarked(tb testing.TB, r *Receiver, want int) (got []marked) {
	tb.Helper()
	for len(got) < want {
		fill(tb, r)
		for d, _, ok := r.Next(); ok; d, _, ok = r.Next() {
			got = append(got, marked{bytes.Clone(d), r.ECN()})
		}
	}
	return got
}

func equalMarked(tb testing.TB, got, want []marked) {
	tb.Helper()
	for i := range min(len(got), len(want)) {
		if got[i].ecn != want[i].ecn || !bytes.Equal(got[i].datagram, want[i].datagram) {
			tb.Fatalf("datagram %d: %.6q with %02b, want %.6q with %02b",
				i, got[i].datagram, got[i].ecn, want[i].datagram, want[i].ecn)
		}
	}
	if len(got) != len(want) {
		tb.Fatalf("%d datagrams, want %d", len(got), len(want))
	}
}

// Every field in runs and alone, with whatever the kernel offers and without.
func TestRFC6040_G14_TheOuterFieldArrivesAsItWasSent(t *testing.T) {
	t.Parallel()
	fields := []uint8{notECT, ect1, ect0, ce, ce, ce, notECT, notECT, ect0, ect0, ect0, ect0, ce, ect1, ect1, notECT}
	for _, addr := range []netip.AddrPort{loopback4, loopback6} {
		for _, o := range []Options{{}, {DisableGRO: true}, {DisableGSO: true}, {DisableGRO: true, DisableGSO: true}} {
			t.Run(fmt.Sprintf("%v without GRO %v GSO %v", addr.Addr(), o.DisableGRO, o.DisableGSO), func(t *testing.T) {
				to, from := withECN(t, addr, o), open(t, addr, o)
				b, r := NewBatch(64), NewReceiver(to)
				var want []marked
				for i, ecn := range fields {
					want = append(want, marked{payload(i, 900), ecn})
					b.AddMarked(from, destination(to), ecn, want[i].datagram[:22], want[i].datagram[22:])
				}
				if sent, dropped := b.Flush(); sent != len(want) || dropped != 0 {
					t.Fatalf("sent %d, dropped %d", sent, dropped)
				}
				equalMarked(t, receiveMarked(t, r, len(want)), want)
				nothingWaits(t, r)
			})
		}
	}
}

// RFC 2983 section 3.1, the pipe model: nothing of an inner DSCP shows outside.
func TestG14_TheOuterDSCPIsZero(t *testing.T) {
	t.Parallel()
	for _, addr := range []netip.AddrPort{loopback4, loopback6} {
		to, from := withECN(t, addr, Options{}), open(t, addr, Options{})
		b, r := NewBatch(8), NewReceiver(to)
		for _, ecn := range []uint8{notECT, ect1, ect0, ce} {
			b.AddMarked(from, destination(to), ecn, nil, []byte("datagram"))
		}
		b.Flush()
		if n, err := r.Fill(); n != 4 || err != nil {
			t.Fatalf("%v: %d messages, error %v", addr, n, err)
		}
		for i := range 4 {
			o := &r.controls[i][0]
			class := o.value[0] // a byte; an int for IPv6, whose other bytes are 0
			if addr.Addr().Is6() {
				class = o.value[0] | o.value[1] | o.value[2] | o.value[3]
			}
			if class != uint8(i) {
				t.Errorf("%v: TOS or traffic class %#02x, want %#02x", addr, class, i)
			}
		}
	}
}

func TestG14_DatagramsWithDifferentFieldsShareNoMessage(t *testing.T) {
	t.Parallel()
	to, from := open(t, loopback4, Options{}), withGSO(t, loopback4)
	b := NewBatch(64)
	rec := record(b)
	for i, ecn := range []uint8{ect0, ect0, ect0, ce, ect0, ect0, notECT} {
		b.AddMarked(from, destination(to), ecn, nil, payload(i, 500))
	}
	if sent, _ := b.Flush(); sent != 7 {
		t.Fatalf("sent %d", sent)
	}
	if want := []shape{{3, 500}, {1, 0}, {2, 500}, {1, 0}}; !slices.Equal(rec.shapes, want) {
		t.Errorf("messages %v, want %v", rec.shapes, want)
	}
}

// One value stands for a whole message; the size of its segments comes beside it.
func TestG14_AMessageHasOneField(t *testing.T) {
	t.Parallel()
	for _, addr := range []netip.AddrPort{loopback4, loopback6} {
		to, from := withECN(t, addr, Options{}), withGSO(t, addr)
		if !to.Features().GRO {
			t.Skip("this kernel does not offer UDP_GRO")
		}
		b, r := NewBatch(64), NewReceiver(to)
		for i := range 10 {
			b.AddMarked(from, destination(to), []uint8{ce, ect0}[i/5], nil, payload(i, 300))
		}
		b.Flush()
		if n, err := r.Fill(); n != 2 || err != nil {
			t.Fatalf("%v: %d messages, error %v", addr, n, err)
		}
		for _, want := range []uint8{ce, ect0} {
			message, segment, _, ok := r.NextUnless(whole)
			if !ok || len(message) != 1500 || segment != 300 || r.ECN() != want {
				t.Errorf("%v: %d bytes in segments of %d with %02b, want %02b", addr, len(message), segment, r.ECN(), want)
			}
		}
	}
}

func TestG14_SegmentsRefusedByTheKernelKeepTheirField(t *testing.T) {
	t.Parallel()
	to, from := withECN(t, loopback4, Options{}), withGSO(t, loopback4)
	if err := unix.SetsockoptInt(from.fd.number, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1); err != nil {
		t.Fatal(err)
	}
	b, r := NewBatch(64), NewReceiver(to)
	var want []marked
	for i := range 20 {
		want = append(want, marked{payload(i, 400), []uint8{ect1, ce}[i/10]})
		b.AddMarked(from, destination(to), want[i].ecn, nil, want[i].datagram)
	}
	if sent, dropped := b.Flush(); sent != 20 || dropped != 0 {
		t.Fatalf("sent %d, dropped %d", sent, dropped)
	}
	equalMarked(t, receiveMarked(t, r, 20), want)
}

// A kernel that refuses is no error: everything counts as Not-ECT.
func TestG14_WithoutTheKernelsHelpEverythingIsNotECT(t *testing.T) {
	t.Parallel()
	to, from := open(t, loopback4, Options{}), open(t, loopback4, Options{})
	if to.Features().ECN {
		t.Error("a socket that did not ask is told the field")
	}
	b, r := NewBatch(8), NewReceiver(to)
	b.AddMarked(from, destination(to), ce, nil, []byte("marked"))
	b.Flush()
	equalMarked(t, receiveMarked(t, r, 1), []marked{{[]byte("marked"), notECT}})

	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0) // knows no such option
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	for _, six := range []bool{false, true} {
		if f := setOptions(pair[0], six, Options{ECN: true, DontFragment: true}); f.ECN || f.DontFragment {
			t.Errorf("IPv6 %v: refused, and yet %+v", six, f)
		}
	}
}

// G12: a flow keeps its order even when some of it is marked in transit, and some of it is
// not for marking, as retransmissions are.
func TestG12_G14_MixedFieldsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewSource(1))
	to, from := withECN(t, loopback4, Options{}), open(t, loopback4, Options{})
	b, r := NewBatch(40), NewReceiver(to)
	for range 20 {
		var want []marked
		for i := range random.Intn(120) {
			want = append(want, marked{payload(i, []int{1400, 1400, 60}[random.Intn(3)]), uint8(random.Intn(4))})
			b.AddMarked(from, destination(to), want[i].ecn, nil, want[i].datagram)
		}
		if sent, dropped := b.Flush(); sent != len(want) || dropped != 0 {
			t.Fatalf("sent %d of %d, dropped %d", sent, len(want), dropped)
		}
		equalMarked(t, receiveMarked(t, r, len(want)), want)
	}
}

func TestMarkedDatagramsDoNotAllocate(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector allocates by itself; run without -race")
	}
	to, from := withECN(t, loopback4, Options{}), open(t, loopback4, Options{})
	b, r, d, p := NewBatch(8), NewReceiver(to), destination(to), payload(0, 1200)
	if n := testing.AllocsPerRun(100, func() {
		for i := range 8 {
			b.AddMarked(from, d, uint8(i/2), p[:22], p[22:])
		}
		b.Flush()
		if _, err := r.Fill(); err != nil {
			t.Fatal(err)
		}
		for _, _, ok := r.Next(); ok; _, _, ok = r.Next() {
		}
	}); n != 0 {
		t.Errorf("%v allocations per batch sent and received", n)
	}
}
