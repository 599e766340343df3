package tun

import (
	"bytes"
	"testing"

	"strait.dev/strait/internal/raceflag"
)

func TestInboxKeepsOrderAndCopies(t *testing.T) {
	t.Parallel()
	var q packetQueue
	b := []byte("one")
	q.put(b, ownPacket)
	copy(b, "xxx")
	q.put([]byte("two"), ownPacket)
	q.put([]byte("three"), ownPacket)

	bufs := [][]byte{make([]byte, 16), make([]byte, 16)}
	sizes := make([]int, 2)
	if n, _, _ := q.take(bufs, sizes, 4, maxUnsent); n != 2 || sizes[0] != 3 || !bytes.Equal(bufs[0][4:7], []byte("one")) || !bytes.Equal(bufs[1][4:7], []byte("two")) {
		t.Errorf("took %d: %q %q", n, bufs[0], bufs[1])
	}
	if n, _, _ := q.take(bufs, sizes, 0, maxUnsent); n != 1 || !bytes.Equal(bufs[0][:sizes[0]], []byte("three")) {
		t.Errorf("then took %d: %q", n, bufs[0][:sizes[0]])
	}
	if n, _, _ := q.take(bufs, sizes, 0, maxUnsent); n != 0 {
		t.Errorf("took %d of nothing", n)
	}
}

func TestInboxIsBounded(t *testing.T) {
	t.Parallel()
	var q packetQueue
	for i := range maxQueued[ownPacket] {
		if !q.put([]byte{1}, ownPacket) {
			t.Fatalf("refused packet %d of %d", i, maxQueued[ownPacket])
		}
	}
	if q.put([]byte{1}, ownPacket) {
		t.Error("took more than it may hold")
	}
}

// Probes get past the packets of mapped addresses, which may be many.
func TestControlPacketsGoFirst(t *testing.T) {
	t.Parallel()
	var q packetQueue
	for range maxQueued[ownPacket] {
		q.put([]byte("data"), ownPacket)
	}
	if !q.put([]byte("probe"), controlPacket) {
		t.Fatal("a full queue refuses a control packet")
	}
	bufs, sizes := [][]byte{make([]byte, 16), make([]byte, 16)}, make([]int, 2)
	if n, _, _ := q.take(bufs, sizes, 0, maxUnsent); n != 2 || string(bufs[0][:sizes[0]]) != "probe" || string(bufs[1][:sizes[1]]) != "data" {
		t.Errorf("took %d: %q %q", n, bufs[0], bufs[1])
	}
	for range maxQueued[controlPacket] {
		q.put([]byte("probe"), controlPacket)
	}
	if q.put([]byte("probe"), controlPacket) {
		t.Error("control packets are not limited")
	}
}

// A flood of packets that another device hands over does not delay those of the gateway itself, and is sent only as far as
// WireGuard sends it.
func TestPacketsHandedOverShareTheQueueWithNoOthers(t *testing.T) {
	var q packetQueue
	for i := range maxQueued[handedOver] {
		if !q.put([]byte{byte(i)}, handedOver) {
			t.Fatalf("refused packet %d of %d", i, maxQueued[handedOver])
		}
	}
	if q.put([]byte{0}, handedOver) {
		t.Error("took more than it may hold")
	}
	if !q.put([]byte("own"), ownPacket) {
		t.Error("a packet of the gateway finds no room")
	}
	bufs, sizes := make([][]byte, 8), make([]int, 8)
	for i := range bufs {
		bufs[i] = make([]byte, 16)
	}
	if n, handed, _ := q.take(bufs, sizes, 0, maxUnsent); n != 8 || handed != 7 || string(bufs[0][:sizes[0]]) != "own" || bufs[1][0] != 0 || bufs[7][0] != 6 {
		t.Errorf("took %d, of these %d handed over: %q", n, handed, bufs)
	}
	for _, most := range []int{2, 0, -1} {
		q.put([]byte("own"), ownPacket)
		if n, handed, more := q.take(bufs, sizes, 0, most); handed != max(most, 0) || n != handed+1 || !more {
			t.Errorf("at most %d: took %d, of these %d handed over", most, n, handed)
		}
	}
}

// All packets that connections through the gateway's own stack send are in the queue once.
func TestQueuedPacketsReuseTheMemoryOfThoseSent(t *testing.T) {
	bufs, sizes := [][]byte{make([]byte, 16)}, make([]int, 1)
	packet := []byte("again")
	for _, kind := range []packetKind{ownPacket, handedOver} {
		var q packetQueue
		if n := testing.AllocsPerRun(100, func() {
			q.put(packet, kind)
			q.take(bufs, sizes, 0, maxUnsent)
		}); n != 0 && !raceflag.Enabled {
			t.Errorf("%v allocations for kind %d", n, kind)
		}
	}
}
