package packet_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/packet"
)

var ecnNames = [...]string{packet.NotECT: "Not-ECT", packet.ECT0: "ECT(0)", packet.ECT1: "ECT(1)", packet.CE: "CE"}

// Figure 4 of RFC 6040 as it stands there, a cell a line.
func TestRFC6040_G14_DecapsulationIsFigure4(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		inner, outer, want string
	}{
		{"Not-ECT", "Not-ECT", "Not-ECT"},
		{"Not-ECT", "ECT(0)", "Not-ECT"},
		{"Not-ECT", "ECT(1)", "Not-ECT"},
		{"Not-ECT", "CE", "drop"},

		{"ECT(0)", "Not-ECT", "ECT(0)"},
		{"ECT(0)", "ECT(0)", "ECT(0)"},
		{"ECT(0)", "ECT(1)", "ECT(1)"},
		{"ECT(0)", "CE", "CE"},

		{"ECT(1)", "Not-ECT", "ECT(1)"},
		{"ECT(1)", "ECT(0)", "ECT(1)"},
		{"ECT(1)", "ECT(1)", "ECT(1)"},
		{"ECT(1)", "CE", "CE"},

		{"CE", "Not-ECT", "CE"},
		{"CE", "ECT(0)", "CE"},
		{"CE", "ECT(1)", "CE"},
		{"CE", "CE", "CE"},
	} {
		t.Run(fmt.Sprintf("inner %s, outer %s", c.inner, c.outer), func(t *testing.T) {
			got := "drop"
			if ecn, ok := packet.DecapsulateECN(ecnOf(t, c.inner), ecnOf(t, c.outer)); ok {
				got = ecnNames[ecn]
			}
			if got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

func ecnOf(t *testing.T, name string) uint8 {
	t.Helper()
	i := slices.Index(ecnNames[:], name)
	if i < 0 {
		t.Fatalf("no ECN field is called %q", name)
	}
	return uint8(i)
}

// A caller may pass a complete TOS: only its ECN field counts.
func TestRFC6040_TheDSCPDecidesNothing(t *testing.T) {
	t.Parallel()
	for inner := range 256 {
		for outer := range 256 {
			got, ok := packet.DecapsulateECN(uint8(inner), uint8(outer))
			want, wantOK := packet.DecapsulateECN(uint8(inner&3), uint8(outer&3))
			if got != want || ok != wantOK {
				t.Fatalf("inner %#x, outer %#x: %#x %v, want %#x %v", inner, outer, got, ok, want, wantOK)
			}
		}
	}
}

// RFC 2983 section 3.1: the DSCP of the inner packet is its own affair. The twin makes the
// packet anew, with another TOS and a checksum from scratch.
func TestG14_SetECNChangesTheFieldAndTheHeaderChecksumAlone(t *testing.T) {
	t.Parallel()
	payload := udpMessage(podA, podB, counting(21))
	for tos := range 256 {
		for _, ecn := range []uint8{packet.NotECT, packet.ECT1, packet.ECT0, packet.CE} {
			for _, id := range []uint16{0, 0x5ac3, 0xffff} {
				v4 := func(tos uint8) []byte {
					return ipv4{tos: tos, id: id, proto: packet.ProtoUDP, options: []byte{1, 1, 1, 0}}.packet(payload)
				}
				checkECN(t, v4(uint8(tos)), ecn, v4(uint8(tos)&^3|ecn))
			}
			v6 := func(class uint8) []byte {
				b := ipv6{class: class, next: packet.ProtoUDP}.packet(payload)
				b[1], b[2], b[3] = b[1]|0xa, 0xbc, 0xde // flow label
				return b
			}
			checkECN(t, v6(uint8(tos)), ecn, v6(uint8(tos)&^3|ecn))
		}
	}
}

// checkECN holds SetECN to the packet it must make of b, and ECN to reading it.
func checkECN(t *testing.T, b []byte, ecn uint8, want []byte) {
	t.Helper()
	before := bytes.Clone(b)
	ip := parse(t, b)
	packet.SetECN(b, &ip, ecn)
	if !bytes.Equal(b, want) {
		t.Fatalf("SetECN %s made % x of % x, want % x", ecnNames[ecn], b[:12], before[:12], want[:12])
	}
	if got := packet.ECN(b, ip.Version); got != ecn {
		t.Fatalf("after SetECN %s, ECN reads %s", ecnNames[ecn], ecnNames[got])
	}
}

func FuzzECN(f *testing.F) {
	for _, b := range everyKind() {
		f.Add(b, packet.CE)
	}
	f.Fuzz(func(t *testing.T, b []byte, ecn uint8) {
		if len(b) > packet.MaxLen {
			return
		}
		b, ecn = repair(b), ecn&3
		var ip packet.IP
		if packet.Parse(b, &ip) != packet.FaultNone {
			return
		}
		want := bytes.Clone(b)
		if ip.Version == 6 {
			want[1] = want[1]&0xcf | ecn<<4
		} else {
			want[1] = want[1]&0xfc | ecn
			want = repair(want[:ip.Len])
			b = b[:ip.Len]
		}
		checkECN(t, b, ecn, want)
	})
}

func TestECNAllocatesNothing(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector allocates by itself; run without -race")
	}
	b := udp4(counting(100))
	ip := parse(t, b)
	var ecn uint8
	if n := testing.AllocsPerRun(100, func() {
		ecn, _ = packet.DecapsulateECN(packet.ECN(b, ip.Version), ecn+1)
		packet.SetECN(b, &ip, ecn&3)
	}); n != 0 {
		t.Errorf("allocates %v times", n)
	}
}
