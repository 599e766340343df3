package geneve_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"strait.dev/strait/geneve"
	"strait.dev/strait/internal/raceflag"
)

// option is one Geneve option: a kind, critical from 0x80 on, and words of 4 bytes.
func option(kind uint8, words int) []byte {
	return append([]byte{0x01, 0x03, kind, byte(words)}, make([]byte, words*4)...)
}

// header has what a sender puts into it; options are a multiple of 4 bytes.
func header(vni uint32, protocol uint16, options ...[]byte) []byte {
	all := slices.Concat(options...)
	b := []byte{byte(len(all) / 4), 0}
	b = binary.BigEndian.AppendUint16(b, protocol)
	b = binary.BigEndian.AppendUint32(b, vni<<8)
	return append(b, all...)
}

func with(b []byte, at int, bits byte) []byte {
	b = slices.Clone(b)
	b[at] |= bits
	return b
}

var frame = []byte("an Ethernet frame")

// seeds are packets as peers send them, good and bad.
func seeds() [][]byte {
	plain := header(101, geneve.ProtocolEthernet)
	return [][]byte{
		append(plain, frame...),
		append(header(0xffffff, geneve.ProtocolEthernet, option(1, 0), option(2, 3)), frame...),
		append(header(7, 0x0800), frame...),
		append(with(plain, 1, 0x80), frame...),
		append(with(header(1, geneve.ProtocolEthernet, option(0x81, 1)), 1, 0x40), frame...),
		append(header(1, geneve.ProtocolEthernet, option(0x81, 1)), frame...),
		append(header(1, geneve.ProtocolEthernet, option(1, 31), option(2, 29)), frame...),
	}
}

func TestDecodeReadsAHeader(t *testing.T) {
	t.Parallel()
	b := append([]byte{
		0x03,       // version 0, options of 3 words
		0x00,       // O 0, C 0
		0x65, 0x58, // Ethernet
		0x00, 0x00, 0x65, // VNI 101
		0x00,                   // reserved
		0x01, 0x02, 0x10, 0x02, // option class, type, 2 words
		1, 2, 3, 4, 5, 6, 7, 8,
	}, frame...)
	vni, protocol, payload, fault := geneve.Decode(b)
	if vni != 101 || protocol != geneve.ProtocolEthernet || !bytes.Equal(payload, frame) || fault != geneve.FaultNone {
		t.Fatalf("VNI %d, protocol %#x, payload %q, fault %d", vni, protocol, payload, fault)
	}
	if &payload[0] != &b[20] {
		t.Error("payload is a copy")
	}
}

func TestG6_PutWritesZeroInReservedBits(t *testing.T) {
	t.Parallel()
	b := bytes.Repeat([]byte{0xff}, 10)
	geneve.Put(b, 0xabcdef)
	want := []byte{0x00, 0x00, 0x65, 0x58, 0xab, 0xcd, 0xef, 0x00, 0xff, 0xff}
	if !bytes.Equal(b, want) {
		t.Fatalf("% x, want % x", b, want)
	}
}

func TestWhatPutWritesDecodeReads(t *testing.T) {
	t.Parallel()
	b := append(make([]byte, geneve.HeaderLen), frame...)
	for vni := uint32(0); vni < 1<<24; vni += 251 {
		geneve.Put(b, vni)
		got, protocol, payload, fault := geneve.Decode(b)
		if got != vni || protocol != geneve.ProtocolEthernet || !bytes.Equal(payload, frame) || fault != geneve.FaultNone {
			t.Fatalf("VNI %d: %d, %#x, %q, fault %d", vni, got, protocol, payload, fault)
		}
	}
}

func TestG1_OtherVersionsAreDropped(t *testing.T) {
	t.Parallel()
	for version := byte(1); version <= 3; version++ {
		expect(t, with(append(header(1, geneve.ProtocolEthernet), frame...), 0, version<<6), geneve.FaultVersion)
	}
}

func TestG2_ControlPacketsAreNotForwarded(t *testing.T) {
	t.Parallel()
	expect(t, with(append(header(1, geneve.ProtocolEthernet), frame...), 1, 0x80), geneve.FaultControl)
}

func TestG3_PacketsWithCriticalOptionsAreDropped(t *testing.T) {
	t.Parallel()
	expect(t, with(append(header(1, geneve.ProtocolEthernet, option(0x80, 1)), frame...), 1, 0x40), geneve.FaultCritical)
	expect(t, with(append(header(1, geneve.ProtocolEthernet), frame...), 1, 0x40), geneve.FaultCritical)
}

func TestG4_UnknownCriticalOptionIsDroppedWithoutTheHeaderBitToo(t *testing.T) {
	t.Parallel()
	for _, options := range [][][]byte{
		{option(0x80, 0)},
		{option(0xff, 31)},
		{option(1, 2), option(0x90, 1), option(2, 0)},
		{option(1, 2), option(2, 0), option(0x80, 0)},
	} {
		expect(t, append(header(1, geneve.ProtocolEthernet, options...), frame...), geneve.FaultCritical)
	}
}

func TestG4_UnknownOptionsThatAreNotCriticalAreIgnored(t *testing.T) {
	t.Parallel()
	for kind := range 0x80 {
		for words := range 32 {
			expect(t, append(header(1, geneve.ProtocolEthernet, option(uint8(kind), words)), frame...), geneve.FaultNone)
		}
	}
}

func TestG5_OptionLengthsMustAddUp(t *testing.T) {
	t.Parallel()
	for words := range 64 {
		for claimed := range 32 {
			options := make([]byte, words*4)
			if words > 0 {
				options[3] = byte(claimed)
			}
			want := geneve.FaultNone
			switch {
			case words == 0:
			case claimed+1 > words:
				want = geneve.FaultOptions
			}
			// What is left behind the first option are options of length 0.
			expect(t, append(header(1, geneve.ProtocolEthernet, options), frame...), want)
		}
	}
	// The last of several reaches beyond.
	bad := slices.Concat(option(1, 1), option(2, 2), []byte{0, 0, 3, 1})
	expect(t, append(header(1, geneve.ProtocolEthernet, bad), frame...), geneve.FaultOptions)
}

func TestG5_HeadersCutShortAreDropped(t *testing.T) {
	t.Parallel()
	for words := range 64 {
		options := make([]byte, words*4)
		b := header(1, geneve.ProtocolEthernet, options)
		for n := range b {
			expect(t, b[:n], geneve.FaultTruncated)
		}
		expect(t, b, geneve.FaultNone) // an empty payload is the caller's to judge
	}
}

func TestG6_ReservedBitsAreIgnored(t *testing.T) {
	t.Parallel()
	b := append(header(5, geneve.ProtocolEthernet, option(1, 1)), frame...)
	b[1] |= 0x3f
	b[7] = 0xff
	b[11] |= 0xe0 // R bits of the option
	vni, _, payload, fault := geneve.Decode(b)
	if vni != 5 || !bytes.Equal(payload, frame) || fault != geneve.FaultNone {
		t.Fatalf("VNI %d, payload %q, fault %d", vni, payload, fault)
	}
}

func TestG7_ProtocolTypeIsReportedAsItIs(t *testing.T) {
	t.Parallel()
	for _, want := range []uint16{0, 0x0800, 0x86dd, 0x6558, 0xffff} {
		if _, protocol, _, fault := geneve.Decode(append(header(1, want), frame...)); protocol != want || fault != geneve.FaultNone {
			t.Errorf("protocol %#x, want %#x; fault %d", protocol, want, fault)
		}
	}
}

func expect(t *testing.T, b []byte, want geneve.Fault) {
	t.Helper()
	vni, protocol, payload, fault := geneve.Decode(b)
	if fault != want {
		t.Fatalf("fault %d, want %d: % x", fault, want, b)
	}
	if fault != geneve.FaultNone && (vni != 0 || protocol != 0 || payload != nil) {
		t.Fatalf("fault %d, but VNI %d, protocol %#x, payload % x", fault, vni, protocol, payload)
	}
}

// naiveDecode reads the header bit by bit, as a string of zeros and ones.
func naiveDecode(b []byte) (vni, protocol uint64, payload []byte, fault geneve.Fault) {
	if len(b) < 8 {
		return 0, 0, nil, geneve.FaultTruncated
	}
	field := func(from, n int) (v uint64) {
		for i := from; i < from+n; i++ {
			v = v*2 + uint64(b[i/8]>>(7-i%8)&1)
		}
		return v
	}
	if field(0, 2) != 0 {
		return 0, 0, nil, geneve.FaultVersion
	}
	if field(8, 1) == 1 {
		return 0, 0, nil, geneve.FaultControl
	}
	if field(9, 1) == 1 {
		return 0, 0, nil, geneve.FaultCritical
	}
	end := 8 + 4*int(field(2, 6))
	if len(b) < end {
		return 0, 0, nil, geneve.FaultTruncated
	}
	critical := false
	at := 8
	for at < end {
		critical = critical || field(at*8+16, 1) == 1
		at += 4 + 4*int(field(at*8+27, 5))
	}
	switch {
	case at != end:
		return 0, 0, nil, geneve.FaultOptions
	case critical:
		return 0, 0, nil, geneve.FaultCritical
	}
	return field(32, 24), field(16, 16), b[end:], geneve.FaultNone
}

func FuzzGeneveDecode(f *testing.F) {
	for _, b := range seeds() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		vni, protocol, payload, fault := geneve.Decode(b)
		wantVNI, wantProtocol, wantPayload, wantFault := naiveDecode(b)
		if uint64(vni) != wantVNI || uint64(protocol) != wantProtocol || !bytes.Equal(payload, wantPayload) || fault != wantFault {
			t.Fatalf("VNI %d, protocol %#x, %d bytes, fault %d; want %d, %#x, %d, %d: % x",
				vni, protocol, len(payload), fault, wantVNI, wantProtocol, len(wantPayload), wantFault, b)
		}
	})
}

func TestNothingAllocates(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector allocates by itself; run without -race")
	}
	b := seeds()[1]
	put := make([]byte, geneve.HeaderLen)
	if n := testing.AllocsPerRun(100, func() { geneve.Decode(b); geneve.Put(put, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, pkt := range map[string][]byte{"plain": seeds()[0], "two options": seeds()[1]} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				geneve.Decode(pkt)
			}
		})
	}
}
