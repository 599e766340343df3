package packet_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip/checksum"

	"strait.dev/strait/packet"
)

// checkSegments segments b and verifies the pieces as their receiver would see
// them: a byte stream.
func checkSegments(t testing.TB, b []byte, mtu int) [][]byte {
	t.Helper()
	return checkSegmentsOf(t, b, mtu, false)
}

// checkSegmentsOf is checkSegments with CWROnce or without.
func checkSegmentsOf(t testing.TB, b []byte, mtu int, cwrOnce bool) [][]byte {
	t.Helper()
	ip := parse(t, b)
	before := slices.Clone(b)
	var p packet.Pieces
	if !p.Segments(b, &ip, mtu) {
		t.Fatalf("refused, mtu %d: % x", mtu, b[:min(len(b), 100)])
	}
	if cwrOnce {
		p.CWROnce()
	}
	segments := pieces(t, &p, min(mtu, int(ip.Len)))
	if !bytes.Equal(b, before) {
		t.Fatal("the packet itself was edited")
	}

	at := int(ip.Header)
	headers := at + int(b[at+12]>>4)*4
	seq := binary.BigEndian.Uint32(b[at+4:])
	var stream []byte
	for i, s := range segments {
		first, last := i == 0, i == len(segments)-1
		sip := parse(t, s) // verifies the IPv4 header checksum
		if int(sip.Len) != len(s) {
			t.Fatalf("segment %d of %d bytes says it has %d", i, len(s), sip.Len)
		}
		u := sip.Upper(s)
		if !upperOK(s, sip) || checksum.Checksum(u, checksum.Checksum(pseudoHeader(sip.Src, sip.Dst, 6, len(u)), 0)) != 0xffff {
			t.Fatalf("segment %d of %d: TCP checksum is wrong", i, len(segments))
		}
		if got, want := binary.BigEndian.Uint32(u[4:]), seq+uint32(len(stream)); got != want {
			t.Fatalf("segment %d has sequence number %d, want %d", i, got, want)
		}
		if len(s) > mtu || !last && len(s) != mtu {
			t.Fatalf("segment %d of %d has %d bytes, mtu %d", i, len(segments), len(s), mtu)
		}
		stream = append(stream, s[headers:]...)

		// The rest is the header of b.
		want := slices.Clone(b[:headers])
		if ip.Version == 4 {
			copy(want[2:4], s[2:4])
			binary.BigEndian.PutUint16(want[4:], binary.BigEndian.Uint16(b[4:])+uint16(i))
			copy(want[10:12], s[10:12])
		} else {
			copy(want[4:6], s[4:6])
		}
		copy(want[at+4:at+8], s[at+4:at+8])
		copy(want[at+16:at+18], s[at+16:at+18])
		if !first && cwrOnce {
			want[at+13] &^= cwr
		}
		if !last {
			want[at+13] &^= fin | psh
		}
		if !bytes.Equal(s[:headers], want) {
			t.Fatalf("segment %d of %d has headers\n% x, want\n% x", i, len(segments), s[:headers], want)
		}
	}
	if !bytes.Equal(stream, b[headers:ip.Len]) {
		t.Fatalf("%d segments carry %d bytes that are not the %d sent", len(segments), len(stream), int(ip.Len)-headers)
	}
	return segments
}
