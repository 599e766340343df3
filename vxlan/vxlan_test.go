package vxlan_test

import (
	"bytes"
	"testing"

	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/vxlan"
)

var frame = []byte("an Ethernet frame")

func packetOf(vni uint32) []byte {
	b := make([]byte, vxlan.HeaderLen, vxlan.HeaderLen+len(frame))
	vxlan.Put(b, vni)
	return append(b, frame...)
}

func TestDecodeReadsAHeader(t *testing.T) {
	t.Parallel()
	b := append([]byte{
		0x08,             // I
		0x00, 0x00, 0x00, // reserved
		0x00, 0x00, 0x65, // VNI 101
		0x00, // reserved
	}, frame...)
	vni, payload, fault := vxlan.Decode(b)
	if vni != 101 || !bytes.Equal(payload, frame) || fault != vxlan.FaultNone {
		t.Fatalf("VNI %d, payload %q, fault %d", vni, payload, fault)
	}
	if &payload[0] != &b[8] {
		t.Error("payload is a copy")
	}
}

func TestRFC7348Reserved_PutWritesZeroInReservedBits(t *testing.T) {
	t.Parallel()
	b := bytes.Repeat([]byte{0xff}, 10)
	vxlan.Put(b, 0xabcdef)
	want := []byte{0x08, 0x00, 0x00, 0x00, 0xab, 0xcd, 0xef, 0x00, 0xff, 0xff}
	if !bytes.Equal(b, want) {
		t.Fatalf("% x, want % x", b, want)
	}
}

func TestWhatPutWritesDecodeReads(t *testing.T) {
	t.Parallel()
	for vni := uint32(0); vni < 1<<24; vni += 251 {
		got, payload, fault := vxlan.Decode(packetOf(vni))
		if got != vni || !bytes.Equal(payload, frame) || fault != vxlan.FaultNone {
			t.Fatalf("VNI %d: %d, %q, fault %d", vni, got, payload, fault)
		}
	}
}

func TestRFC7348Flag_OnlyItsBitCounts(t *testing.T) {
	t.Parallel()
	for flags := range 256 {
		b := packetOf(7)
		b[0] = byte(flags)
		vni, payload, fault := vxlan.Decode(b)
		if flags&0x08 == 0 {
			if fault != vxlan.FaultFlags || vni != 0 || payload != nil {
				t.Errorf("flags %#02x: VNI %d, payload %q, fault %d; want FaultFlags", flags, vni, payload, fault)
			}
		} else if fault != vxlan.FaultNone || vni != 7 || !bytes.Equal(payload, frame) {
			t.Errorf("flags %#02x: VNI %d, payload %q, fault %d", flags, vni, payload, fault)
		}
	}
}

func TestRFC7348Reserved_BitsAreIgnored(t *testing.T) {
	t.Parallel()
	b := packetOf(7)
	b[0], b[1], b[2], b[3], b[7] = 0xff, 0xff, 0xff, 0xff, 0xff
	if vni, payload, fault := vxlan.Decode(b); vni != 7 || !bytes.Equal(payload, frame) || fault != vxlan.FaultNone {
		t.Errorf("VNI %d, payload %q, fault %d", vni, payload, fault)
	}
}

func TestHeadersCutShortAreDropped(t *testing.T) {
	t.Parallel()
	b := packetOf(7)
	for n := range vxlan.HeaderLen {
		if vni, payload, fault := vxlan.Decode(b[:n]); fault != vxlan.FaultTruncated || vni != 0 || payload != nil {
			t.Errorf("%d bytes: VNI %d, payload %q, fault %d", n, vni, payload, fault)
		}
	}
	if _, payload, fault := vxlan.Decode(b[:vxlan.HeaderLen]); fault != vxlan.FaultNone || len(payload) != 0 {
		t.Errorf("a header alone: payload %q, fault %d", payload, fault)
	}
}

func FuzzVXLANDecode(f *testing.F) {
	f.Add(packetOf(0))
	f.Add(packetOf(101))
	f.Add(packetOf(0xffffff)[:vxlan.HeaderLen])
	f.Add(packetOf(1)[:5])
	f.Fuzz(func(t *testing.T, b []byte) {
		vni, payload, fault := vxlan.Decode(b)
		switch {
		case fault != vxlan.FaultNone:
			if len(b) >= vxlan.HeaderLen && b[0]/8%2 == 1 {
				t.Fatalf("fault %d: % x", fault, b)
			}
		case vni != uint32(b[4])*65536+uint32(b[5])*256+uint32(b[6]) || !bytes.Equal(payload, b[8:]):
			t.Fatalf("VNI %d, %d bytes: % x", vni, len(payload), b)
		}
	})
}

func TestNothingAllocates(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector allocates by itself; run without -race")
	}
	b := packetOf(1)
	if n := testing.AllocsPerRun(100, func() { vxlan.Decode(b); vxlan.Put(b, 2) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDecode(b *testing.B) {
	pkt := packetOf(1)
	b.ReportAllocs()
	for b.Loop() {
		vxlan.Decode(pkt)
	}
}
