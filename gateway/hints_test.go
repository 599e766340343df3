package gateway

import (
	"testing"
)

func TestHintsAreKeptPerFlowAndOnlyEverLower(t *testing.T) {
	t.Parallel()
	var h segmentHints
	if n := h.get(7, 1400); n != 1400 {
		t.Errorf("unknown flow: %d, want the limit", n)
	}
	h.set(7, 1200)
	if n := h.get(7, 1400); n != 1200 {
		t.Errorf("known flow: %d, want 1200", n)
	}
	if n := h.get(7, 1100); n != 1100 {
		t.Errorf("limit below the hint: %d, want 1100", n)
	}
	if n := h.get(7+uint32(len(h.slots)), 1400); n != 1400 {
		t.Errorf("another flow in the same slot: %d, want the limit", n)
	}
	h.set(7+uint32(len(h.slots)), 1000)
	if n := h.get(7, 1400); n != 1400 {
		t.Errorf("overwritten flow: %d, want the limit", n)
	}
}

func TestHintsOfAFlowThatHashesToZero(t *testing.T) {
	t.Parallel()
	var h segmentHints
	if n := h.get(0, 1400); n != 1400 {
		t.Errorf("never set: %d, want the limit", n)
	}
	h.set(0, 1200)
	if n := h.get(0, 1400); n != 1200 {
		t.Errorf("set: %d, want 1200", n)
	}
}

func TestT11_HintsHaveAFloor(t *testing.T) {
	t.Parallel()
	var h segmentHints
	for _, size := range []int{0, 1, smallestSegment - 1} {
		h.set(9, size)
		if n := h.get(9, 1400); size != 0 && n != smallestSegment {
			t.Errorf("%d: %d, want %d", size, n, smallestSegment)
		} else if n < smallestSegment {
			t.Errorf("%d: %d, below %d", size, n, smallestSegment)
		}
	}
}

func TestTooBigMTUIsReadOfBothFamilies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		icmp    []byte
		version uint8
		mtu     int
		ok      bool
	}{
		{"fragmentation needed", []byte{3, 4, 0, 0, 0, 0, 0x05, 0x14}, 4, 1300, true},
		{"port unreachable", []byte{3, 3, 0, 0, 0, 0, 0x05, 0x14}, 4, 0, false},
		{"time exceeded", []byte{11, 0, 0, 0, 0, 0, 0x05, 0x14}, 4, 0, false},
		{"packet too big", []byte{2, 0, 0, 0, 0, 0, 0x05, 0x14}, 6, 1300, true},
		{"packet too big, far beyond", []byte{2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, 6, 65535, true},
		{"no route", []byte{1, 0, 0, 0, 0, 0, 0x05, 0x14}, 6, 0, false},
		{"cut short", []byte{3, 4, 0, 0, 0, 0, 0x05}, 4, 0, false},
	} {
		if mtu, ok := tooBigMTU(c.icmp, c.version); mtu != c.mtu || ok != c.ok {
			t.Errorf("%s: %d, %t, want %d, %t", c.name, mtu, ok, c.mtu, c.ok)
		}
	}
}
