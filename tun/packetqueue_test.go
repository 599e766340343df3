package tun

import (
	"bytes"
	"testing"
)

func TestInboxKeepsOrderAndCopies(t *testing.T) {
	t.Parallel()
	var q packetQueue
	b := []byte("one")
	q.put(b, false)
	copy(b, "xxx")
	q.put([]byte("two"), false)
	q.put([]byte("three"), false)

	bufs := [][]byte{make([]byte, 16), make([]byte, 16)}
	sizes := make([]int, 2)
	if n := q.take(bufs, sizes, 4); n != 2 || sizes[0] != 3 || !bytes.Equal(bufs[0][4:7], []byte("one")) || !bytes.Equal(bufs[1][4:7], []byte("two")) {
		t.Errorf("took %d: %q %q", n, bufs[0], bufs[1])
	}
	if n := q.take(bufs, sizes, 0); n != 1 || !bytes.Equal(bufs[0][:sizes[0]], []byte("three")) {
		t.Errorf("then took %d: %q", n, bufs[0][:sizes[0]])
	}
	if n := q.take(bufs, sizes, 0); n != 0 {
		t.Errorf("took %d of nothing", n)
	}
}

func TestInboxIsBounded(t *testing.T) {
	t.Parallel()
	var q packetQueue
	for i := range maxQueuedPackets {
		if !q.put([]byte{1}, false) {
			t.Fatalf("refused packet %d of %d", i, maxQueuedPackets)
		}
	}
	if q.put([]byte{1}, false) {
		t.Error("took more than it may hold")
	}
}

// Probes get past the packets of mapped addresses, which may be many.
func TestControlPacketsGoFirst(t *testing.T) {
	t.Parallel()
	var q packetQueue
	for range maxQueuedPackets {
		q.put([]byte("data"), false)
	}
	if !q.put([]byte("probe"), true) {
		t.Fatal("a full queue refuses a control packet")
	}
	bufs, sizes := [][]byte{make([]byte, 16), make([]byte, 16)}, make([]int, 2)
	if n := q.take(bufs, sizes, 0); n != 2 || string(bufs[0][:sizes[0]]) != "probe" || string(bufs[1][:sizes[1]]) != "data" {
		t.Errorf("took %d: %q %q", n, bufs[0], bufs[1])
	}
	for range maxQueuedPackets {
		q.put([]byte("probe"), true)
	}
	if q.put([]byte("probe"), true) {
		t.Error("control packets are not limited")
	}
}
