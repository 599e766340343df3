package underlay

import (
	"bytes"
	"net/netip"
	"testing"
)

// TestCoalescedMessagesAreCutIntoDatagrams sends UDP_SEGMENT messages, which loopback
// hands on whole to a UDP_GRO socket.
func TestCoalescedMessagesAreCutIntoDatagrams(t *testing.T) {
	t.Parallel()
	for _, addr := range []netip.AddrPort{loopback4, loopback6} {
		to, from := open(t, addr, Options{}), open(t, addr, Options{})
		b, r := NewBatch(128), NewReceiver(to)
		var want [][]byte
		for i := range 41 { // the last is shorter than the rest
			size := 1000
			if i == 40 {
				size = 17
			}
			want = append(want, payload(i, size))
			b.Add(from, destination(to), nil, want[i])
		}
		if sent, dropped := b.Flush(); sent != len(want) || dropped != 0 {
			t.Fatalf("sent %d, dropped %d", sent, dropped)
		}
		messages := fill(t, r)
		if from.Features().GSO && to.Features().GRO && messages != 1 {
			t.Errorf("%d messages, want 1", messages)
		}
		var got [][]byte
		for len(got) < len(want) {
			d, sender, ok := r.Next()
			if !ok {
				fill(t, r)
				continue
			}
			if sender != from.LocalAddr() {
				t.Fatalf("from %s, want %s", sender, from.LocalAddr())
			}
			if cap(d) != len(d) {
				t.Fatal("a datagram reaches into its neighbour")
			}
			got = append(got, bytes.Clone(d))
		}
		equal(t, got, want)
		nothingWaits(t, r)
	}
}

// whole takes any message for one datagram.
func whole([]byte) bool { return true }

func TestMessagesCanBeHadWhole(t *testing.T) {
	t.Parallel()
	to, from := open(t, loopback4, Options{}), withGSO(t, loopback4)
	if !to.Features().GRO {
		t.Skip("this kernel does not offer UDP_GRO")
	}
	b, r := NewBatch(8), NewReceiver(to)
	var want []byte
	for i, size := range []int{1000, 1000, 300} {
		p := payload(i, size)
		want = append(want, p...)
		b.Add(from, destination(to), nil, p)
	}
	b.Add(from, destination(to), nil, []byte("alone"))
	b.Flush()
	messages := fill(t, r)
	message, segment, sender, ok := r.NextUnless(whole)
	if !ok || segment != 1000 || sender != from.LocalAddr() || !bytes.Equal(message, want) {
		t.Errorf("%d bytes in segments of %d from %s, %v", len(message), segment, sender, ok)
	}
	if messages == 1 {
		messages += fill(t, r)
	}
	message, segment, _, ok = r.NextUnless(whole)
	if !ok || segment != 0 || string(message) != "alone" {
		t.Errorf("%q in segments of %d, %v", message, segment, ok)
	}
	if _, _, _, ok := r.NextUnless(whole); ok || messages != 2 {
		t.Errorf("%d messages, want 2", messages)
	}
}

func TestDatagramsOfAllSizesAreReceivedInOrder(t *testing.T) {
	t.Parallel()
	sizes := []int{0, 1, 64, 64, 0, 1400, 1400, 9000, 65507, 3, 0}
	for _, o := range []Options{{}, {DisableGRO: true}, {DisableGSO: true}} {
		to, from := open(t, loopback4, o), open(t, loopback4, o)
		b, r := NewBatch(len(sizes)), NewReceiver(to)
		var want [][]byte
		for i, size := range sizes {
			want = append(want, payload(i, size))
			b.Add(from, destination(to), nil, want[i])
		}
		if sent, dropped := b.Flush(); sent != len(want) {
			t.Fatalf("sent %d, dropped %d", sent, dropped)
		}
		got, _ := receive(t, r, len(want))
		equal(t, got, want)
		nothingWaits(t, r)
	}
}

func TestMoreThanOneFillOfMessages(t *testing.T) {
	t.Parallel()
	to, from := open(t, loopback4, Options{}), open(t, loopback4, Options{DisableGSO: true})
	b, r := NewBatch(32), NewReceiver(to)
	var want [][]byte
	for i := range 3*ReceiveBatch + 1 {
		want = append(want, payload(i, 100))
		b.Add(from, destination(to), nil, want[i])
	}
	b.Flush()
	got, _ := receive(t, r, len(want))
	equal(t, got, want)
}

func TestReceivingDoesNotAllocate(t *testing.T) {
	to, from := open(t, loopback4, Options{}), open(t, loopback4, Options{})
	b, r, d, p := NewBatch(8), NewReceiver(to), destination(to), payload(0, 1200)
	allocations := testing.AllocsPerRun(100, func() {
		for range 4 {
			b.Add(from, d, p[:22], p[22:])
		}
		b.Flush()
		if _, err := r.Fill(); err != nil {
			t.Fatal(err)
		}
		for _, _, ok := r.Next(); ok; _, _, ok = r.Next() {
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations per batch sent and received", allocations)
	}
}
