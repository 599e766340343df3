package packet_test

import (
	"slices"
	"testing"

	"strait.dev/strait/packet"
)

var timestamps = []byte{1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2}

func TestSegmentsOfASuperPacketMakeItsStream(t *testing.T) {
	t.Parallel()
	r := random()
	ext := slices.Concat(extension(60), extension(packet.ProtoTCP))
	for range cases(2000) {
		mtu := 600 + r.IntN(1000)
		payload := randomBytes(r, r.IntN(20_000))
		h := tcp{seq: r.Uint32(), flags: ack | psh | fin | cwr | urg, urgent: 5, partial: true}
		if r.IntN(2) == 0 {
			h.options = timestamps
		}
		var b []byte
		switch r.IntN(4) {
		case 0:
			b = tcp4(h, payload)
		case 1:
			b = tcp6(h, payload)
		case 2:
			b = ipv4{id: 0xfffe, tos: 2, proto: 6, options: []byte{148, 4, 0, 0}}.packet(h.message(podA, podB, payload))
		case 3:
			b = ipv6{class: 0xb9, next: 0, extensions: ext}.packet(h.message(podA6, podB6, payload))
		}
		checkSegmentsOf(t, b, mtu, r.IntN(2) == 0)
	}
}

func TestSegmentsOfTheLongestPacket(t *testing.T) {
	t.Parallel()
	h := tcp{seq: 0xffff_8000, flags: ack | psh, partial: true, options: timestamps} // the sequence number wraps
	if n := len(checkSegments(t, tcp4(h, counting(packet.MaxLen-52)), 1390)); n != 49 {
		t.Errorf("%d segments, want 49: 65483 bytes in pieces of 1338", n)
	}
	checkSegments(t, tcp6(h, counting(packet.MaxLen-72)), 1280)
	checkSegments(t, tcp4(h, counting(300)), 53) // a byte at a time
}

func TestFlagsOfSegments(t *testing.T) {
	t.Parallel()
	b := tcp4(tcp{flags: ack | fin | psh | cwr | urg, urgent: 9, partial: true}, counting(2500))
	for cwrOnce, want := range map[bool][]byte{
		true:  {ack | cwr | urg, ack | urg, ack | urg | fin | psh}, // RFC 3168 section 6.1.2
		false: {ack | cwr | urg, ack | cwr | urg, ack | cwr | urg | fin | psh},
	} {
		for i, s := range checkSegmentsOf(t, b, 1040, cwrOnce) {
			if s[33] != want[i] {
				t.Errorf("CWR once: %t: segment %d has flags %#02x, want %#02x", cwrOnce, i, s[33], want[i])
			}
		}
	}
}

// With AccECN, the flags AE, CWR and ECE are the counter ACE of three bits.
func TestRFC9768_ACEIsTheSameInEverySegment(t *testing.T) {
	t.Parallel()
	for ace := range byte(8) {
		for version, b := range map[int][]byte{
			4: tcp4(tcp{flags: ack | ace<<6, partial: true}, counting(3000)),
			6: tcp6(tcp{flags: ack | psh | ace<<6, options: timestamps, partial: true}, counting(3000)),
		} {
			ip := parse(t, b)
			b[ip.Header+12] |= ace >> 2
			segments := checkSegments(t, b, 1280)
			if len(segments) < 3 {
				t.Fatalf("%d segments", len(segments))
			}
			for i, s := range segments {
				u := s[ip.Header:]
				if got := u[12]&1<<2 | u[13]>>6; got != ace {
					t.Errorf("IPv%d: ACE %03b became %03b in segment %d", version, ace, got, i)
				}
			}
		}
	}
}

func TestClassicECNIsReadOfTheHandshake(t *testing.T) {
	t.Parallel()
	const ece = 0x40
	for _, c := range []struct {
		name    string
		flags   uint8
		ae      byte
		classic bool
	}{
		{"SYN, classic", syn | cwr | ece, 0, true},
		{"SYN, AccECN", syn | cwr | ece, 1, false},
		{"SYN without ECN", syn, 0, false},
		{"SYN-ACK, classic", syn | ack | ece, 0, true},
		{"SYN-ACK, AccECN, Not-ECT seen", syn | ack | cwr, 0, false},
		{"SYN-ACK, AccECN, ECT(1) seen", syn | ack | cwr | ece, 0, false},
		{"SYN-ACK, AccECN, ECT(0) seen", syn | ack, 1, false},
		{"SYN-ACK, AccECN, CE seen", syn | ack | cwr, 1, false},
		{"SYN-ACK without ECN", syn | ack, 0, false},
		{"data with ECE", ack | ece, 0, false},
	} {
		b := tcp4(tcp{flags: c.flags}, nil)
		b[32] |= c.ae
		ip := parse(t, b)
		if got := packet.NegotiatesClassicECN(b, &ip); got != c.classic {
			t.Errorf("%s: %t, want %t", c.name, got, c.classic)
		}
		if got := packet.IsSYN(b, &ip); got != (c.flags&syn != 0) {
			t.Errorf("%s: SYN %t", c.name, got)
		}
	}
}

func TestIdentificationAdvancesAndWraps(t *testing.T) {
	t.Parallel()
	b := ipv4{id: 0xffff, proto: 6}.packet(tcp{flags: ack, partial: true}.message(podA, podB, counting(2500)))
	want := []int{0xffff, 0, 1}
	for i, s := range checkSegments(t, b, 1040) {
		if got := word(s, 4); got != want[i] {
			t.Errorf("segment %d has ID %#x, want %#x", i, got, want[i])
		}
	}
}

// What the trap is for even when nothing has to be cut: the checksum.
func TestOnePieceGetsItsChecksumAndKeepsItsFlags(t *testing.T) {
	t.Parallel()
	for _, flags := range []uint8{syn, syn | ack, ack, ack | psh | fin | cwr, rst} {
		for _, b := range [][]byte{
			tcp4(tcp{flags: flags, partial: true}, nil),
			tcp6(tcp{flags: flags, partial: true}, counting(10)),
		} {
			if n := len(checkSegments(t, b, 1280)); n != 1 {
				t.Errorf("%d pieces, want 1", n)
			}
			if n := len(checkSegments(t, b, len(b))); n != 1 {
				t.Errorf("%d pieces of a packet that just fits, want 1", n)
			}
		}
	}
}

func TestSegmentsRefusesWhatCannotBeCut(t *testing.T) {
	t.Parallel()
	badOffset := func(offset byte) []byte {
		b := tcp4(tcp{flags: ack, partial: true}, counting(3000))
		b[32] = offset << 4
		return b
	}
	short := ipv4{proto: 6}.packet(counting(19))
	beyond := tcp4(tcp{}, nil)
	beyond[32] = 6 << 4 // one word more than there is
	for name, c := range map[string]struct {
		b   []byte
		mtu int
	}{
		"data offset of 16 bytes":         {badOffset(4), 1400},
		"data offset 0":                   {badOffset(0), 1400},
		"data offset beyond the packet":   {beyond, 1400},
		"a TCP header cut short":          {short, 1400},
		"UDP":                             {udp4(counting(3000)), 1400},
		"a first fragment":                {ipv4{proto: 6, fragment: mf}.packet(counting(3000)), 1400},
		"a later fragment":                {ipv4{proto: 6, fragment: 9}.packet(counting(3000)), 1400},
		"headers as long as the mtu":      {tcp4(tcp{flags: ack}, counting(3000)), 40},
		"headers longer than the mtu":     {tcp6(tcp{flags: ack}, counting(3000)), 59},
		"an mtu of 0":                     {tcp4(tcp{flags: ack}, counting(3000)), 0},
		"a SYN longer than one piece":     {tcp4(tcp{flags: syn}, counting(3000)), 1400},
		"an RST longer than one piece":    {tcp4(tcp{flags: rst}, counting(3000)), 1400},
		"a bare header beyond a tiny mtu": {tcp4(tcp{flags: ack}, nil), 30},
	} {
		ip := parse(t, c.b)
		var p packet.Pieces
		p.Whole(udp4(nil)) // must be forgotten
		if p.Segments(c.b, &ip, c.mtu) || p.Left() || p.Next(make([]byte, 9000)) != 0 {
			t.Errorf("%s: not refused", name)
		}
	}
}

func TestTCPHeaderOKGivesTheLength(t *testing.T) {
	t.Parallel()
	for words := 5; words <= 15; words++ {
		b := tcp4(tcp{options: make([]byte, words*4-20)}, counting(3))
		ip := parse(t, b)
		if n, ok := packet.TCPHeaderOK(b, &ip); !ok || n != words*4 {
			t.Errorf("%d words: %d %v", words, n, ok)
		}
	}
}
