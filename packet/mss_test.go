package packet_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"strait.dev/strait/packet"
)

// naiveMSS lists where the values of MSS options are in a TCP header, offsets
// from its start.
func naiveMSS(u []byte) (at []int) {
	options := u[20 : int(u[12]>>4)*4]
	for i := 0; i < len(options); {
		rest := options[i:]
		switch {
		case rest[0] == 0:
			return at
		case rest[0] == 1:
			i++
			continue
		case len(rest) == 1 || rest[1] < 2 || int(rest[1]) > len(rest):
			return at
		case rest[0] == 2 && rest[1] == 4:
			at = append(at, 20+i+2)
		}
		i += int(rest[1])
	}
	return at
}

// checkMSS compares MSS and ClampMSS with the naive walk, and verifies what is
// to be verified of any packet: that nothing else changes.
func checkMSS(t testing.TB, b []byte, limit uint16) {
	t.Helper()
	ip := parse(t, b)
	var want []int
	if _, ok := packet.TCPHeaderOK(b, &ip); ok && ip.Upper(b)[13]&syn != 0 {
		want = naiveMSS(ip.Upper(b))
	}
	smallest, lowered := -1, slices.Clone(b)
	changed := false
	for _, at := range want {
		value := lowered[int(ip.Header)+at:]
		v := word(value, 0)
		if smallest < 0 || v < smallest {
			smallest = v
		}
		if v > int(limit) {
			binary.BigEndian.PutUint16(value, limit)
			changed = true
		}
	}
	if mss, ok := packet.MSS(b, &ip); ok != (len(want) > 0) || ok && int(mss) != smallest {
		t.Fatalf("MSS %d %v, want %d: % x", mss, ok, smallest, b)
	}

	wasRight := ip.Proto == packet.ProtoTCP && ip.Fragment == packet.Unfragmented && upperOK(b, ip)
	memory := append(slices.Clone(b), 0xa5, 0xa5)
	if got := packet.ClampMSS(memory[:len(b)], &ip, limit); got != changed {
		t.Fatalf("ClampMSS to %d reports %v, want %v: % x", limit, got, changed, b)
	}
	if changed {
		sum := int(ip.Header) + 16
		if wasRight && !upperOK(memory[:len(b)], ip) {
			t.Fatalf("checksum is wrong after clamping to %d: % x", limit, memory)
		}
		copy(lowered[sum:sum+2], memory[sum:])
	}
	if !bytes.Equal(memory, append(lowered, 0xa5, 0xa5)) {
		t.Fatalf("clamped to %d\n% x, want\n% x", limit, memory, lowered)
	}
	if packet.ClampMSS(memory[:len(b)], &ip, limit) {
		t.Fatal("clamping again changes something")
	}
}

func TestRFC6691_ClampLowersSYNAndSYNACK(t *testing.T) {
	t.Parallel()
	for _, flags := range []uint8{syn, syn | ack, syn | cwr | 0x40} {
		for _, options := range [][]byte{
			{2, 4, 0x05, 0xb4},
			{2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7}, // as Linux sends them
			{1, 2, 4, 0x05, 0xb4, 0, 0, 0},                                      // at an odd offset
			{3, 3, 7, 2, 4, 0x05, 0xb4, 0},
			{1, 1, 2, 4, 0x05, 0xb4, 4, 2},
			{4, 2, 2, 4, 0x05, 0xb4, 0, 0}, // behind an option of the least length
		} {
			for _, b := range [][]byte{
				tcp4(tcp{flags: flags, options: options}, nil),
				tcp6(tcp{flags: flags, options: options}, nil),
				tcp4(tcp{flags: flags, options: options}, counting(7)), // TCP Fast Open
				ipv6{next: 60, extensions: extension(6)}.packet(tcp{flags: flags, options: options}.message(podA6, podB6, nil)),
			} {
				ip := parse(t, b)
				if mss, ok := packet.MSS(b, &ip); !ok || mss != 1460 {
					t.Fatalf("MSS %d %v, want 1460", mss, ok)
				}
				checkMSS(t, b, 1350)
				if !packet.ClampMSS(b, &ip, 1350) || !upperOK(b, ip) {
					t.Fatalf("not clamped: % x", b)
				}
				if mss, _ := packet.MSS(b, &ip); mss != 1350 {
					t.Fatalf("MSS %d after clamping, want 1350", mss)
				}
			}
		}
	}
}

func TestRFC6691_ClampNeverRaisesAndNeverAdds(t *testing.T) {
	t.Parallel()
	for name, options := range map[string][]byte{
		"smaller":   {2, 4, 0x02, 0x18},
		"equal":     {2, 4, 0x05, 0x46},
		"no option": {4, 2, 1, 1},
		"none":      nil,
	} {
		b := tcp4(tcp{flags: syn, options: options}, nil)
		before := slices.Clone(b)
		ip := parse(t, b)
		if packet.ClampMSS(b, &ip, 0x0546) || !bytes.Equal(b, before) {
			t.Errorf("%s: changed", name)
		}
	}
}

func TestClampLeavesOtherPacketsAlone(t *testing.T) {
	t.Parallel()
	mss := []byte{2, 4, 0x05, 0xb4}
	message := tcp{flags: syn, options: mss}.message(podA, podB, counting(8))
	cut := ipv4{proto: 6}.packet(message)
	cut[32] = 12 << 4 // a data offset beyond the packet
	tiny := ipv4{proto: 6}.packet(message)
	tiny[32] = 4 << 4
	for name, b := range map[string][]byte{
		"ACK":                         tcp4(tcp{flags: ack, options: mss}, nil),
		"RST":                         tcp4(tcp{flags: rst | ack, options: mss}, nil),
		"first fragment":              ipv4{proto: 6, fragment: mf}.packet(message),
		"later fragment":              ipv4{proto: 6, fragment: 1}.packet(message),
		"UDP":                         ipv4{proto: 17}.packet(message),
		"data offset beyond":          cut,
		"data offset below 20":        tiny,
		"truncated header":            ipv4{proto: 6}.packet(message[:18]),
		"option of length 0":          tcp4(tcp{flags: syn, options: []byte{8, 0, 2, 4, 5, 0xb4, 0, 0}}, nil),
		"option of length 1":          tcp4(tcp{flags: syn, options: []byte{8, 1, 2, 4, 5, 0xb4, 0, 0}}, nil),
		"option beyond the header":    tcp4(tcp{flags: syn, options: []byte{8, 9, 2, 4, 5, 0xb4, 0, 0}}, counting(8)),
		"MSS beyond the header":       tcp4(tcp{flags: syn, options: []byte{1, 1, 2, 4}}, []byte{5, 0xb4}),
		"MSS kind in the last byte":   tcp4(tcp{flags: syn, options: []byte{1, 1, 1, 2}}, []byte{4, 5, 0xb4}),
		"MSS of another length":       tcp4(tcp{flags: syn, options: []byte{2, 3, 5, 1}}, nil),
		"MSS behind the end of list":  tcp4(tcp{flags: syn, options: []byte{0, 2, 4, 5, 0xb4, 0, 0, 0}}, nil),
		"bytes like an option inside": tcp4(tcp{flags: syn, options: []byte{254, 8, 2, 4, 5, 0xb4, 0, 0}}, nil),
	} {
		before := slices.Clone(b)
		ip := parse(t, b)
		if _, ok := packet.MSS(b, &ip); ok {
			t.Errorf("%s: has an MSS", name)
		}
		if packet.ClampMSS(b, &ip, 536) || !bytes.Equal(b, before) {
			t.Errorf("%s: changed", name)
		}
	}
}

func TestClampLowersEveryMSSOption(t *testing.T) {
	t.Parallel()
	b := tcp4(tcp{flags: syn, options: []byte{2, 4, 5, 0xb4, 1, 2, 4, 5, 0x00, 2, 4, 0xff}}, nil)
	checkMSS(t, b, 1200)
	b = tcp4(tcp{flags: syn, options: []byte{2, 4, 5, 0xb4, 1, 2, 4, 6, 0, 1, 1, 1}}, nil)
	checkMSS(t, b, 1200)
	ip := parse(t, b)
	packet.ClampMSS(b, &ip, 1200)
	if word(b, 42) != 1200 || word(b, 47) != 1200 {
		t.Errorf("options % x", b[40:])
	}
}

func TestRFC1624_ClampKeepsTheChecksumRightForAllValues(t *testing.T) {
	t.Parallel()
	for _, options := range [][]byte{{2, 4, 0, 0}, {1, 2, 4, 0, 0, 0, 0, 0}} {
		at := 20 + slices.Index(options, 2) + 2
		for v := 0; v < 0x10000; v += 7 {
			h := tcp{flags: syn, options: slices.Clone(options)}
			binary.BigEndian.PutUint16(h.options[at-20:], uint16(v))
			for _, limit := range []uint16{0, 536, 1351, 0xffff} {
				checkMSS(t, tcp4(h, nil), limit)
			}
		}
	}
}

func FuzzMSS(f *testing.F) {
	for _, b := range everyKind() {
		f.Add(b, uint16(1350))
	}
	f.Fuzz(func(t *testing.T, b []byte, limit uint16) {
		if len(b) > packet.MaxLen {
			return
		}
		b = repair(b)
		var ip packet.IP
		if packet.Parse(b, &ip) == packet.FaultNone {
			checkMSS(t, b, limit)
		}
	})
}
