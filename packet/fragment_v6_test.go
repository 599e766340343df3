package packet_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"strait.dev/strait/packet"
)

func TestFragmentsOfAKnownIPv6Packet(t *testing.T) {
	t.Parallel()
	hop := []byte{43, 0, 5, 2, 0, 0, 1, 0}     // router alert
	routing := []byte{60, 0, 4, 0, 0, 0, 0, 0} // segment routing, nothing left
	options := []byte{packet.ProtoUDP, 0, 1, 4, 0, 0, 0, 0}
	message := udpMessage(podA6, podB6, counting(1300)) // 1308 bytes
	b := ipv6{class: 0xba, hopLimit: 63, next: 0, extensions: slices.Concat(hop, routing, options)}.packet(message)
	ip := parse(t, b)
	var p packet.Pieces
	if !p.FragmentsV6(b, &ip, 1280, 0x89abcdef) {
		t.Fatal("refused")
	}
	got := pieces(t, &p, 1280)

	// Hop-by-hop options and routing are in each; what is behind is cut.
	behind := slices.Concat(options, message)
	perFragment := slices.Concat(hop, []byte{44}, routing[1:])
	fragment := func(offset uint16, more bool, payload []byte) []byte {
		return ipv6{class: 0xba, hopLimit: 63, next: 0, extensions: slices.Concat(perFragment,
			fragmentHeader(60, offset, more, 0x89abcdef))}.packet(payload)
	}
	want := [][]byte{fragment(0, true, behind[:1216]), fragment(1216, false, behind[1216:])}
	if len(got) != len(want) {
		t.Fatalf("%d fragments, want %d", len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("fragment %d\n % x, want\n % x", i, got[i][:80], want[i][:80])
		}
	}
}

// checkFragmentsV6 fragments b and verifies everything about the result.
func checkFragmentsV6(t testing.TB, b []byte, given int) (fragments [][]byte, ok bool) {
	t.Helper()
	mtu := max(given, packet.MinIPv6MTU)
	ip := parse(t, b)
	before := slices.Clone(b)
	var p packet.Pieces
	ok = p.FragmentsV6(b, &ip, given, 7)
	if !ok {
		if p.Left() {
			t.Fatal("refused, but something is left")
		}
		return nil, false
	}
	fragments = pieces(t, &p, min(mtu, int(ip.Len)))
	if !bytes.Equal(b, before) {
		t.Fatal("the packet itself was edited")
	}
	b = b[:ip.Len]
	if len(b) <= mtu {
		if len(fragments) != 1 || !bytes.Equal(fragments[0], b) {
			t.Fatal("a packet that fits was changed")
		}
		return fragments, true
	}
	var parts []slowPart
	for i, f := range fragments {
		fip := parse(t, f)
		_, part := readSlow(f, fip)
		if binary.BigEndian.Uint32(f[len(part.header)+4:]) != 7 {
			t.Fatalf("fragment %d is none of the datagram: % x", i, f[:80])
		}
		// No more fragments than needed: each takes what fits.
		if room := (mtu - len(part.header) - 8) &^ 7; i < len(fragments)-1 && len(part.payload) != room {
			t.Fatalf("fragment %d has %d payload bytes, %d fit", i, len(part.payload), room)
		}
		if i == 0 && (fip.Fragment != packet.FirstFragment || len(f) < int(fip.Header)+8) {
			t.Fatalf("the first fragment has not all headers: % x", f)
		}
		if want := naivePerFragment(b); len(part.header) != want {
			t.Fatalf("fragment %d has %d bytes of headers in front, want %d: % x", i, len(part.header), want, b[:120])
		}
		parts = append(parts, part)
	}
	if whole, _ := slowWhole(parts); slowFault(parts) == packet.ReassemblyOverlap || !bytes.Equal(whole, b) {
		t.Fatalf("the fragments make\n% x, not\n% x", whole, b[:120])
	}
	return fragments, true
}

// naivePerFragment is where the routing header of b ends, or else its hop-by-hop
// options, or else the IPv6 header.
func naivePerFragment(b []byte) int {
	end := 40
	for at, next := 40, b[6]; slices.Contains([]byte{0, 43, 51, 60, 135, 139, 140}, next); {
		size := (int(b[at+1]) + 1) * 8
		if next == 51 {
			size = (int(b[at+1]) + 2) * 4
		}
		if next == 0 || next == 43 {
			end = at + size
		}
		next = b[at]
		at += size
	}
	return end
}

func TestIPv6FragmentsReassembleForEveryMTU(t *testing.T) {
	t.Parallel()
	r := random()
	for mtu := 1200; mtu < 1700; mtu++ {
		for range 3 {
			if _, ok := checkFragmentsV6(t, randomDatagram(r, true, 0, r.IntN(4000)), mtu); !ok {
				t.Fatal("refused")
			}
		}
	}
	for _, mtu := range []int{0, 1280, 1500, 9000, packet.MaxLen} {
		checkFragmentsV6(t, randomDatagram(r, true, 0, packet.MaxLen-80), mtu)
	}
}

func TestIPv6FragmentsLeaveLinkPaddingOut(t *testing.T) {
	t.Parallel()
	fragments, _ := checkFragmentsV6(t, append(udp6(make([]byte, 2000)), 0xee, 0xee), 1280)
	for i, f := range fragments {
		if bytes.Contains(f, []byte{0xee, 0xee}) {
			t.Errorf("fragment %d carries padding", i)
		}
	}
}

func TestI9_WhatCannotBeCutIntoIPv6FragmentsIsRefused(t *testing.T) {
	t.Parallel()
	options := func(next uint8, size int) []byte {
		return append([]byte{next, byte(size/8 - 1)}, make([]byte, size-2)...)
	}
	tcpMessage := tcp{flags: ack, options: make([]byte, 40)}.message(podA6, podB6, counting(1400))
	for _, c := range []struct {
		name string
		ok   bool
		b    []byte
	}{
		{"a fragment", false, piece{v6: true, payload: counting(1400), more: true}.packet()},
		{"an atomic fragment", false, ipv6{next: 44, extensions: fragmentHeader(17, 0, false, 5)}.packet(udpMessage(podA6, podB6, counting(1400)))},
		{"options in every fragment that fill it", false, ipv6{next: 0, extensions: options(17, 1232)}.packet(udpMessage(podA6, podB6, counting(1400)))},
		{"options in every fragment that leave one unit", true, ipv6{next: 0, extensions: options(17, 1224)}.packet(udpMessage(podA6, podB6, counting(1400)))},
		{"destination options longer than the first fragment", false, ipv6{next: 60, extensions: options(17, 1240)}.packet(udpMessage(podA6, podB6, counting(1400)))},
		{"destination options that leave no room for TCP's", false, ipv6{next: 60, extensions: options(6, 1176)}.packet(tcpMessage)},
		{"destination options that leave room for TCP's", true, ipv6{next: 60, extensions: options(6, 1168)}.packet(tcpMessage)},
	} {
		if _, ok := checkFragmentsV6(t, c.b, 1280); ok != c.ok {
			t.Errorf("%s: cut: %v", c.name, ok)
		}
	}
	// What fits need not be cut.
	fits := piece{v6: true, payload: counting(80), more: true}.packet()
	if _, ok := checkFragmentsV6(t, fits, 1280); !ok {
		t.Error("a fragment that fits was refused")
	}
}

func TestIPv6FragmentsPanicRatherThanWriteBehindDst(t *testing.T) {
	t.Parallel()
	b := udp6(counting(3000))
	ip := parse(t, b)
	memory := make([]byte, 2000)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
		if !bytes.Equal(memory[100:], make([]byte, 1900)) {
			t.Error("wrote behind its memory")
		}
	}()
	var p packet.Pieces
	p.FragmentsV6(b, &ip, 1400, 7)
	p.Next(memory[:100])
}

func TestI10_SetIDForMasqueradeUpdatesTheChecksumForEveryIdentification(t *testing.T) {
	t.Parallel()
	for _, options := range [][]byte{nil, {148, 4, 0, 0}} {
		b := ipv4{id: 0xffff, fragment: mf, options: options}.packet(counting(8))
		for id := range 1 << 16 {
			packet.SetID(b, uint16(id))
			if word(b, 4) != id || slowSum(b[:20+len(options)]) != 0xffff {
				t.Fatalf("identification %#04x: % x", id, b[:20])
			}
		}
		packet.SetID(b, 0xffff)
		if !bytes.Equal(b, ipv4{id: 0xffff, fragment: mf, options: options}.packet(counting(8))) {
			t.Fatalf("back again it is % x", b)
		}
	}
}

func TestFragmentsV6AllocateNothing(t *testing.T) {
	b := randomDatagram(random(), true, 0, 9000)
	ip := parse(t, b)
	dst := make([]byte, 1400)
	v4 := udp4(counting(100))
	if n := testing.AllocsPerRun(100, func() {
		var p packet.Pieces
		p.FragmentsV6(b, &ip, len(dst), 7)
		for p.Left() {
			p.Next(dst)
		}
		packet.SetID(v4, 9)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzFragmentsV6(f *testing.F) {
	for _, b := range everyKind() {
		for _, mtu := range []uint16{68, 1280, 1390, 9000} {
			f.Add(b, mtu)
		}
	}
	f.Add(udp6(counting(3000)), uint16(1280))
	f.Add(randomDatagram(random(), true, 0, 4000), uint16(1280))
	f.Fuzz(func(t *testing.T, b []byte, mtu uint16) {
		if len(b) > packet.MaxLen {
			return
		}
		b = repair(b)
		var ip packet.IP
		if packet.Parse(b, &ip) == packet.FaultNone && ip.Version == 6 {
			checkFragmentsV6(t, b, int(mtu))
		}
	})
}
