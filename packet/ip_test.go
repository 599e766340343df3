package packet_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"strait.dev/strait/packet"
)

func TestParseReadsAnIPv4Packet(t *testing.T) {
	t.Parallel()
	b := []byte{
		0x46,       // version 4, header of 6 words
		0xb8,       // DSCP EF
		0x00, 0x21, // total length 33
		0x12, 0x34, // identification
		0x40, 0x00, // DF, offset 0
		0x3f,       // TTL 63
		0x11,       // UDP
		0x7c, 0x87, // header checksum
		10, 0, 1, 5, // source
		10, 71, 2, 9, // destination
		0x94, 0x04, 0x00, 0x00, // router alert
		0x30, 0x39, 0x00, 0x35, 0x00, 0x09, 0x00, 0x00, 'x', // UDP
		0xee, 0xee, // padding of the link
	}
	ip := parse(t, b)
	switch {
	case ip.Version != 4, ip.Src != podA, ip.Dst != podB, ip.Proto != packet.ProtoUDP, ip.TTL != 63,
		!ip.DF, ip.Fragment != packet.Unfragmented, ip.Header != 24, ip.Len != 33:
		t.Errorf("%+v", ip)
	}
	if u := ip.Upper(b); len(u) != 9 || u[8] != 'x' {
		t.Errorf("Upper = % x", u)
	}
}

func TestParseReadsAnIPv6Packet(t *testing.T) {
	t.Parallel()
	b := []byte{
		0x60, 0x00, 0x00, 0x00, // version 6, traffic class, flow label
		0x00, 0x11, // payload length 17
		0x00, // hop-by-hop options
		0x3f, // hop limit 63
		0xfd, 0, 0, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 5,
		0xfd, 0, 0, 0x0b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 9,
		0x11, 0x00, 0x01, 0x04, 0, 0, 0, 0, // next UDP, 8 bytes, PadN
		0x30, 0x39, 0x00, 0x35, 0x00, 0x09, 0xbe, 0xef, 'x', // UDP
		0xee, 0xee, 0xee, // padding of the link
	}
	ip := parse(t, b)
	switch {
	case ip.Version != 6, ip.Src != podA6, ip.Dst != podB6, ip.Proto != packet.ProtoUDP, ip.TTL != 63,
		!ip.DF, ip.Fragment != packet.Unfragmented, ip.Header != 48, ip.Len != 57:
		t.Errorf("%+v", ip)
	}
	if u := ip.Upper(b); len(u) != 9 || u[8] != 'x' {
		t.Errorf("Upper = % x", u)
	}
}

func TestI1_ParseRefusesMalformedHeaders(t *testing.T) {
	t.Parallel()
	// edit changes a good packet and updates its header checksum.
	edit := func(b []byte, change func(b []byte)) []byte {
		change(b)
		b[10], b[11] = 0, 0
		binary.BigEndian.PutUint16(b[10:], ^slowSum(b[:20]))
		return b
	}
	edit6 := func(b []byte, change func(b []byte)) []byte { change(b); return b }
	cases := []struct {
		name string
		b    []byte
		want packet.Fault
	}{
		{"nothing", nil, packet.FaultTruncated},
		{"19 bytes", udp4(nil)[:19], packet.FaultTruncated},
		{"version 0", edit(udp4(nil), func(b []byte) { b[0] = 0x05 }), packet.FaultVersion},
		{"version 5", edit(udp4(nil), func(b []byte) { b[0] = 0x55 }), packet.FaultVersion},
		{"IPv4 header of 16 bytes", edit(udp4(nil), func(b []byte) { b[0] = 0x44 }), packet.FaultHeader},
		{"IPv4 header length 0", edit(udp4(nil), func(b []byte) { b[0] = 0x40 }), packet.FaultHeader},
		{"IPv4 header beyond the total length", edit(udp4(nil), func(b []byte) { b[0] = 0x4f }), packet.FaultLength},
		{"IPv4 total length 0", edit(udp4(nil), func(b []byte) { b[3] = 0 }), packet.FaultLength},
		{"IPv4 total length 19", edit(udp4(nil), func(b []byte) { b[3] = 19 }), packet.FaultLength},
		{"IPv4 total length beyond the bytes", edit(udp4(nil), func(b []byte) { b[3]++ }), packet.FaultTruncated},
		{"IPv4 header checksum", func() []byte { b := udp4(nil); b[11]++; return b }(), packet.FaultChecksum},
		{"IPv4 header checksum 0", func() []byte { b := udp4(nil); b[10], b[11] = 0, 0; return b }(), packet.FaultChecksum},
		{"IPv6 of 39 bytes", udp6(nil)[:39], packet.FaultTruncated},
		{"IPv6 payload beyond the bytes", edit6(udp6(nil), func(b []byte) { b[5]++ }), packet.FaultTruncated},
		{"IPv6 longer than 65535", edit6(udp6(nil), func(b []byte) { b[4], b[5] = 0xff, 0xff }), packet.FaultLength},
		{"IPv6 jumbogram", edit6(udp6(nil), func(b []byte) { b[4], b[5], b[6] = 0, 0, 0 }), packet.FaultExtension},
		{"IPv4-mapped source", ipv6{next: 17, src: netip.AddrFrom16(podA.As16())}.packet(nil), packet.FaultHeader},
		{"IPv4-mapped destination", ipv6{next: 17, dst: netip.AddrFrom16(podB.As16())}.packet(nil), packet.FaultHeader},
	}
	for _, c := range cases {
		var ip packet.IP
		if got := packet.Parse(c.b, &ip); got != c.want {
			t.Errorf("%s: fault %d, want %d", c.name, got, c.want)
		}
	}
}

func TestI1_EveryTruncationIsRefused(t *testing.T) {
	t.Parallel()
	for _, b := range everyKind() {
		for n := range b {
			var ip packet.IP
			if packet.Parse(b[:n], &ip) == packet.FaultNone {
				t.Fatalf("%d of %d bytes pass: % x", n, len(b), b[:n])
			}
		}
	}
}

func TestI8_SourceRoutesAreRefusedOtherOptionsPass(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name    string
		options []byte
		want    packet.Fault
	}{
		{"no operation", []byte{1, 1, 1, 1}, packet.FaultNone},
		{"end of list, then anything", []byte{0, 131, 131, 131}, packet.FaultNone},
		{"router alert", []byte{148, 4, 0, 0}, packet.FaultNone},
		{"record route", []byte{7, 7, 4, 0, 0, 0, 0, 0}, packet.FaultNone},
		{"unknown", []byte{30, 3, 9, 0}, packet.FaultNone},
		{"of the least length", []byte{30, 2, 31, 2}, packet.FaultNone},
		{"loose source route", []byte{131, 7, 4, 10, 0, 0, 1, 0}, packet.FaultSourceRoute},
		{"strict source route behind another", []byte{1, 137, 7, 4, 10, 0, 0, 1}, packet.FaultSourceRoute},
		{"length 0", []byte{7, 0, 0, 0}, packet.FaultOptions},
		{"length 1", []byte{7, 1, 0, 0}, packet.FaultOptions},
		{"longer than the header", []byte{7, 5, 0, 0}, packet.FaultOptions},
		{"no length", []byte{1, 1, 1, 7}, packet.FaultOptions},
	}
	for _, c := range cases {
		var ip packet.IP
		if got := packet.Parse(ipv4{options: c.options}.packet(counting(8)), &ip); got != c.want {
			t.Errorf("%s: fault %d, want %d", c.name, got, c.want)
		}
	}
	var ip packet.IP
	rh0 := []byte{packet.ProtoUDP, 2, 0, 1, 0, 0, 0, 0, 0xfd, 15: 1, 23: 1}
	if got := packet.Parse(ipv6{next: 43, extensions: rh0}.packet(counting(8)), &ip); got != packet.FaultSourceRoute {
		t.Errorf("type 0 routing header: fault %d (RFC 5095)", got)
	}
	for _, kind := range []byte{2, 3, 4, 253} { // Mobile IPv6, RPL, segment routing, an experiment
		for left, want := range map[byte]packet.Fault{0: packet.FaultNone, 1: packet.FaultSourceRoute, 255: packet.FaultSourceRoute} {
			rh := slices.Clone(rh0)
			rh[2], rh[3] = kind, left
			if got := packet.Parse(ipv6{next: 43, extensions: rh}.packet(counting(8)), &ip); got != want {
				t.Errorf("type %d routing header with %d segments left: fault %d, want %d", kind, left, got, want)
			}
		}
	}
}

func TestI9_ExtensionHeadersAreWalkedWithinBounds(t *testing.T) {
	t.Parallel()
	chain := func(n int, last uint8) []byte {
		var b []byte
		for i := range n {
			next := uint8(60)
			if i == n-1 {
				next = last
			}
			b = append(b, extension(next)...)
		}
		return b
	}
	var ip packet.IP
	for n := 1; n <= 7; n++ {
		b := ipv6{next: 60, extensions: chain(n, packet.ProtoTCP)}.packet(counting(20))
		if f := packet.Parse(b, &ip); f != packet.FaultNone || ip.Proto != packet.ProtoTCP || int(ip.Header) != 40+8*n {
			t.Errorf("%d headers: fault %d, %+v", n, f, ip)
		}
	}
	for name, b := range map[string][]byte{
		"eight headers":         ipv6{next: 60, extensions: chain(8, packet.ProtoTCP)}.packet(counting(20)),
		"a chain without end":   ipv6{next: 60, extensions: chain(100, 60)}.packet(nil),
		"cut before its length": ipv6{next: 60, extensions: chain(1, 6)[:7]}.packet(nil),
		"longer than the rest":  ipv6{next: 60, extensions: []byte{6, 1, 1, 4, 0, 0, 0, 0}}.packet(counting(7)),
		"a cut fragment header": ipv6{next: 44, extensions: fragmentHeader(17, 0, true, 1)[:6]}.packet(nil),
		"two fragment headers": ipv6{next: 44, extensions: slices.Concat(
			fragmentHeader(44, 0, false, 1), fragmentHeader(17, 0, false, 1))}.packet(counting(8)),
	} {
		if f := packet.Parse(b, &ip); f != packet.FaultExtension {
			t.Errorf("%s: fault %d, want FaultExtension", name, f)
		}
	}
	// The authentication header counts in words of 4 bytes, RFC 4302 section 2.2.
	auth := []byte{packet.ProtoUDP, 4, 23: 0}
	if ip := parse(t, ipv6{next: 51, extensions: auth}.packet(counting(8))); ip.Proto != packet.ProtoUDP || ip.Header != 64 {
		t.Errorf("authentication header: %+v", ip)
	}
	// RFC 6946: an atomic fragment is no fragment.
	empty := ipv6{next: 44, extensions: fragmentHeader(packet.ProtoNoNext, 0, false, 1)}.packet(nil)
	if ip := parse(t, empty); ip.Fragment != packet.Unfragmented || ip.Header != 48 || ip.Len != 48 {
		t.Errorf("empty atomic fragment: %+v", ip)
	}
	atomic := ipv6{next: 44, extensions: fragmentHeader(packet.ProtoUDP, 0, false, 1)}.packet(counting(9))
	if ip := parse(t, atomic); ip.Fragment != packet.Unfragmented || ip.Header != 48 || ip.Proto != packet.ProtoUDP {
		t.Errorf("atomic fragment: %+v", ip)
	}
}

func TestT11_FragmentsAreDistinguishedAndBounded(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		b    []byte
		kind packet.Fragment
		want packet.Fault
	}{
		{"first", ipv4{fragment: mf}.packet(counting(8)), packet.FirstFragment, 0},
		{"middle", ipv4{fragment: mf | 1}.packet(counting(8)), packet.LaterFragment, 0},
		{"last", ipv4{fragment: 2}.packet(counting(3)), packet.LaterFragment, 0},
		{"the last byte that fits", ipv4{fragment: 8191}.packet(counting(7)), packet.LaterFragment, 0},
		{"one byte too far", ipv4{fragment: 8191}.packet(counting(8)), 0, packet.FaultFragment},
		{"first, not in units of 8", ipv4{fragment: mf}.packet(counting(9)), 0, packet.FaultFragment},
		{"first and empty", ipv4{fragment: mf}.packet(nil), 0, packet.FaultFragment},
		{"last and empty", ipv4{fragment: 2}.packet(nil), 0, packet.FaultFragment},
		{"first of IPv6", ipv6{next: 44, extensions: fragmentHeader(17, 0, true, 1)}.packet(counting(8)), packet.FirstFragment, 0},
		{"last of IPv6", ipv6{next: 44, extensions: fragmentHeader(17, 8, false, 1)}.packet(counting(3)), packet.LaterFragment, 0},
		{"IPv6, too far", ipv6{next: 44, extensions: fragmentHeader(17, 65528, false, 1)}.packet(counting(8)), 0, packet.FaultFragment},
		{"IPv6, not in units of 8", ipv6{next: 44, extensions: fragmentHeader(17, 8, true, 1)}.packet(counting(9)), 0, packet.FaultFragment},
	}
	for _, c := range cases {
		var ip packet.IP
		if f := packet.Parse(c.b, &ip); f != c.want || f == 0 && ip.Fragment != c.kind {
			t.Errorf("%s: fault %d, fragment %d; want fault %d, fragment %d", c.name, f, ip.Fragment, c.want, c.kind)
		}
	}
}

// An IP that is reused must not remember the packet before.
func TestParseForgetsThePacketBefore(t *testing.T) {
	t.Parallel()
	kinds := everyKind()
	var reused packet.IP
	for _, before := range kinds {
		for _, b := range kinds {
			packet.Parse(before, &reused)
			packet.Parse(b, &reused)
			var fresh packet.IP
			packet.Parse(b, &fresh)
			if reused != fresh {
				t.Fatalf("%+v, fresh %+v", reused, fresh)
			}
		}
	}
}

func TestI2_DecrementTTLKeepsTheHeaderChecksumRight(t *testing.T) {
	t.Parallel()
	for ttl := 1; ttl <= 255; ttl++ {
		for id := range 600 {
			b := ipv4{ttl: uint8(ttl), id: uint16(id * 109)}.packet(nil)
			ip := parse(t, b)
			packet.DecrementTTL(b, &ip)
			want := slices.Clone(b)
			want[10], want[11] = 0, 0
			binary.BigEndian.PutUint16(want[10:], ^slowSum(want))
			if int(b[8]) != ttl-1 || !bytes.Equal(b, want) {
				t.Fatalf("TTL %d: % x, want % x", ttl, b, want)
			}
		}
	}
	b := udp6(counting(4))
	want := slices.Clone(b)
	want[7]--
	ip := parse(t, b)
	if packet.DecrementTTL(b, &ip); !bytes.Equal(b, want) {
		t.Fatalf("% x, want % x", b, want)
	}
}

func TestRFC1624_ClearTTLEqualsFullComputationForEveryTTLAndChecksum(t *testing.T) {
	t.Parallel()
	for ttl := range 256 {
		for id := range 0x101 {
			b := ipv4{ttl: uint8(ttl), id: uint16(id * 0xff)}.packet(nil)
			ip := parse(t, b)
			packet.ClearTTL(b, &ip)
			got := binary.BigEndian.Uint16(b[10:])
			b[10], b[11] = 0, 0
			if want := ^slowSum(b); b[8] != 0 || got != want {
				t.Fatalf("TTL %d, ID %#04x: TTL %d, checksum %#04x, want 0 and %#04x", ttl, id*0xff, b[8], got, want)
			}
		}
	}
	b := udp6(counting(4))
	want := slices.Clone(b)
	want[7] = 0
	ip := parse(t, b)
	if packet.ClearTTL(b, &ip); !bytes.Equal(b, want) {
		t.Fatalf("% x, want % x", b, want)
	}
}

// Every checksum value is met: the ID is chosen to make it so.
func TestRFC1624_DecrementTTLEqualsFullComputationForEveryChecksum(t *testing.T) {
	t.Parallel()
	for id := range 0x10000 {
		b := ipv4{id: uint16(id)}.packet(nil)
		ip := parse(t, b)
		packet.DecrementTTL(b, &ip)
		got := binary.BigEndian.Uint16(b[10:])
		b[10], b[11] = 0, 0
		if want := ^slowSum(b); got != want {
			t.Fatalf("ID %#04x: %#04x, want %#04x", id, got, want)
		}
	}
}
