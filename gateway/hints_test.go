package gateway

import (
	"testing"
)

func TestHintsAreKeptPerFlow(t *testing.T) {
	t.Parallel()
	var h segmentHints
	if _, ok := h.get(7); ok {
		t.Error("a flow that was never stored has a hint")
	}
	h.set(7, hint{size: 1200, classicECN: true})
	if known, ok := h.get(7); !ok || known != (hint{1200, true}) {
		t.Errorf("known flow: %v, %t", known, ok)
	}
	other := 7 + uint32(len(h.slots)) // in the same slot
	if known, ok := h.get(other); ok {
		t.Errorf("another flow in the same slot: %v", known)
	}
	h.set(other, hint{size: 65_595})
	if known, ok := h.get(other); !ok || known != (hint{65_595, false}) {
		t.Errorf("the largest: %v, %t", known, ok)
	}
	if known, ok := h.get(7); ok {
		t.Errorf("overwritten flow: %v", known)
	}
}

func TestHintsOfAFlowThatHashesToZero(t *testing.T) {
	t.Parallel()
	var h segmentHints
	if _, ok := h.get(0); ok {
		t.Error("never set: has a hint")
	}
	h.set(0, hint{size: 1200})
	if known, ok := h.get(0); !ok || known.size != 1200 {
		t.Errorf("set: %v, %t", known, ok)
	}
}

func TestT11_HintsHaveAFloor(t *testing.T) {
	t.Parallel()
	var h segmentHints
	for _, size := range []int{0, 1, smallestSegment - 1} {
		h.set(9, hint{size: size})
		if known, ok := h.get(9); !ok || known.size != smallestSegment {
			t.Errorf("%d: %v, want %d", size, known, smallestSegment)
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
