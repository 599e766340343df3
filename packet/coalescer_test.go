package packet_test

import (
	"bytes"
	"slices"
	"testing"

	"strait.dev/strait/packet"
)

// join passes packets to a Coalescer and returns the joined packet of the first ones and how many it has. The packets are
// changed.
func join(t testing.TB, packets ...[]byte) (joined []byte, n int) {
	t.Helper()
	var c packet.Coalescer
	first := parse(t, packets[0])
	if !c.Start(packets[0], &first) {
		if c.Started() || c.End() != nil {
			t.Fatal("refused, but something is left")
		}
		return nil, 0
	}
	var more [][]byte
	for _, b := range packets[1:] {
		ip := parse(t, b)
		payload, ok := c.Append(b, &ip)
		if !ok {
			break
		}
		more = append(more, payload)
	}
	head := c.End()
	if c.Started() || c.End() != nil {
		t.Fatal("the packet is not forgotten")
	}
	return slices.Concat(head, slices.Concat(more...)), 1 + len(more)
}

func TestCoalescerIsTheInverseOfSegments(t *testing.T) {
	t.Parallel()
	r := random()
	for range cases(2000) {
		mtu := 600 + r.IntN(1000) // so that payloads have odd lengths, too
		h := tcp{seq: r.Uint32(), flags: ack | uint8(r.IntN(2))*psh | uint8(r.IntN(2))*fin}
		if r.IntN(2) == 0 {
			h.options = timestamps
		}
		payload := randomBytes(r, 1+mtu+r.IntN(20_000))
		b := tcp4(h, payload)
		if r.IntN(2) == 0 {
			b = tcp6(h, payload)
		}
		ip := parse(t, b)
		var p packet.Pieces
		if !p.Segments(b, &ip, mtu) {
			t.Fatal("no segments")
		}
		segments := pieces(t, &p, mtu)
		joined, n := join(t, segments...)
		if n != len(segments) || !bytes.Equal(joined, b) {
			t.Fatalf("%d of %d segments joined:\n% x, want\n% x", n, len(segments), joined[:60], b[:60])
		}
	}
}

func TestTheLongestJoinedPacket(t *testing.T) {
	t.Parallel()
	for _, make := range []func(seq uint32) []byte{
		func(seq uint32) []byte { return tcp4(tcp{seq: seq, flags: ack}, counting(1000)) },
		func(seq uint32) []byte { return tcp6(tcp{seq: seq, flags: ack}, counting(1000)) },
	} {
		var packets [][]byte
		for i := range 70 {
			packets = append(packets, make(0xffff_8000+uint32(i)*1000)) // the sequence number wraps
		}
		joined, n := join(t, packets...)
		if ip := parse(t, joined); n != 65 || int(ip.Len) != len(joined) || !upperOK(joined, ip) {
			t.Errorf("%d packets in %d bytes", n, len(joined))
		}
	}
}

// Each of these would lose or change something.
func TestOnlyWhatContinuesAFlowIsJoined(t *testing.T) {
	t.Parallel()
	const size = 100
	header := func(h ipv4, f tcp, n int) []byte {
		h.proto = packet.ProtoTCP
		return h.packet(f.message(or(h.src, podA), or(h.dst, podB), counting(n)))
	}
	next := tcp{seq: size, flags: ack}
	plain := func(f tcp) []byte { return header(ipv4{}, f, size) }
	edited := func(at int, to byte) []byte {
		b := plain(next)
		b[at] = to
		return repair(b)
	}
	for name, second := range map[string][]byte{
		"a gap":                     plain(tcp{seq: size + 1, flags: ack}),
		"a repetition":              plain(tcp{flags: ack}),
		"more payload":              header(ipv4{}, next, size+1),
		"no payload":                header(ipv4{}, next, 0),
		"another source":            header(ipv4{src: podB}, next, size),
		"another destination":       header(ipv4{dst: podA}, next, size),
		"another source port":       edited(21, 1),
		"another port":              edited(23, 1),
		"another acknowledgement":   edited(31, 8),
		"another window":            edited(35, 0),
		"an urgent pointer":         edited(39, 1),
		"options":                   plain(tcp{seq: size, flags: ack, options: timestamps}),
		"SYN":                       plain(tcp{seq: size, flags: ack | syn}),
		"RST":                       plain(tcp{seq: size, flags: ack | rst}),
		"URG":                       plain(tcp{seq: size, flags: ack | urg}),
		"CWR":                       plain(tcp{seq: size, flags: ack | cwr}),
		"ECE":                       plain(tcp{seq: size, flags: ack | 0x40}),
		"without ACK":               plain(tcp{seq: size, flags: psh}),
		"congestion in transit":     header(ipv4{tos: 3}, next, size),
		"another TTL":               header(ipv4{ttl: 9}, next, size),
		"DF":                        header(ipv4{fragment: 0x4000}, next, size),
		"a fragment":                header(ipv4{fragment: 0x2000}, next, size),
		"IPv4 options":              header(ipv4{options: []byte{148, 4, 0, 0}}, next, size),
		"UDP":                       udp4(counting(size)),
		"another version":           tcp6(next, counting(size)),
		"a reserved bit of TCP set": edited(32, 0x51),
	} {
		if _, n := join(t, plain(tcp{flags: ack}), second); n != 1 {
			t.Errorf("%s: joined", name)
		}
	}
	ext := slices.Concat(extension(packet.ProtoTCP))
	for name, first := range map[string][]byte{
		"PSH":          plain(tcp{flags: ack | psh}),
		"FIN":          plain(tcp{flags: ack | fin}),
		"SYN":          plain(tcp{flags: syn}),
		"URG":          plain(tcp{flags: ack | urg}),
		"no payload":   header(ipv4{}, tcp{flags: ack}, 0),
		"a fragment":   header(ipv4{fragment: 0x2000}, tcp{flags: ack}, size),
		"IPv4 options": header(ipv4{options: []byte{148, 4, 0, 0}}, tcp{flags: ack}, size),
		"IPv6 options": ipv6{next: 0, extensions: ext}.packet(tcp{flags: ack}.message(podA6, podB6, counting(size))),
		"UDP":          udp4(counting(size)),
	} {
		if _, n := join(t, first, plain(next)); n != 0 {
			t.Errorf("begins with %s: joined", name)
		}
	}
}

func TestTheLastPacketOfASuperPacketIsShortOrHasPSHOrFIN(t *testing.T) {
	t.Parallel()
	first := func() []byte { return tcp4(tcp{flags: ack}, counting(100)) }
	for name, second := range map[string][]byte{
		"short": tcp4(tcp{seq: 100, flags: ack}, counting(99)),
		"PSH":   tcp4(tcp{seq: 100, flags: ack | psh}, counting(100)),
		"FIN":   tcp4(tcp{seq: 100, flags: ack | fin}, counting(100)),
	} {
		flags := second[33]
		third := tcp4(tcp{seq: uint32(100 + len(second) - 40), flags: ack}, counting(50))
		joined, n := join(t, first(), second, third)
		if n != 2 || joined[33] != flags {
			t.Errorf("%s: %d packets joined, flags %#x", name, n, joined[33])
		}
	}
}

// The checksum is not computed anew: an error in one packet is one in the joined packet.
func TestAnErrorInOnePacketIsOneInTheJoinedPacket(t *testing.T) {
	t.Parallel()
	for damaged := range 3 {
		var packets [][]byte
		for i := range 3 {
			b := tcp4(tcp{seq: uint32(i) * 101, flags: ack}, counting(101))
			if i == damaged {
				b[60] ^= 0x10
			}
			packets = append(packets, b)
		}
		joined, n := join(t, packets...)
		if ip := parse(t, joined); n != 3 || upperOK(joined, ip) {
			t.Errorf("packet %d damaged: %d joined, and the checksum is correct", damaged, n)
		}
	}
}

func FuzzCoalescer(f *testing.F) {
	for _, b := range everyKind() {
		f.Add(b, b, uint16(576))
	}
	f.Add(tcp4(tcp{flags: ack}, counting(100)), tcp4(tcp{seq: 100, flags: ack | psh}, counting(60)), uint16(576))
	f.Fuzz(func(t *testing.T, a, b []byte, mtu uint16) {
		if len(a) > packet.MaxLen || len(b) > packet.MaxLen {
			return
		}
		a, b = repair(a), repair(b)
		var ipA, ipB packet.IP
		if packet.Parse(a, &ipA) != packet.FaultNone || packet.Parse(b, &ipB) != packet.FaultNone {
			return
		}
		original := slices.Clone(a[:ipA.Len])
		joined, n := join(t, a, b)
		switch {
		case n == 0:
		case n == 1 && !bytes.Equal(joined, original):
			t.Fatal("a packet that nothing was joined to has changed")
		case n == 2:
			ip := parse(t, joined)
			okA, okB, ok := upperOK(original, ipA), upperOK(b, ipB), upperOK(joined, ip)
			if int(ip.Len) != len(joined) || okA && okB && !ok || okA != okB && ok {
				t.Fatalf("joined % x\nof % x\nand % x", joined, original, b)
			}
		}
	})
}
