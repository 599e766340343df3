package packet_test

import (
	"bytes"
	"slices"
	"testing"

	"strait.dev/strait/packet"
)

func TestFragmentsOfAKnownPacket(t *testing.T) {
	t.Parallel()
	b := ipv4{id: 0x1234, ttl: 63, proto: packet.ProtoUDP}.packet(udpMessage(podA, podB, counting(92))) // 120 bytes
	ip := parse(t, b)
	var p packet.Pieces
	p.Fragments(b, &ip, 68)
	got := pieces(t, &p, 68)
	want := [][]byte{
		slices.Concat([]byte{
			0x45, 0, 0, 68, 0x12, 0x34,
			0x20, 0x00, // MF, offset 0
			63, 17, 0x00, 0x00, 10, 0, 1, 5, 10, 71, 2, 9,
		}, b[20:68]),
		slices.Concat([]byte{
			0x45, 0, 0, 68, 0x12, 0x34,
			0x20, 0x06, // MF, offset 6 * 8
			63, 17, 0x00, 0x00, 10, 0, 1, 5, 10, 71, 2, 9,
		}, b[68:116]),
		slices.Concat([]byte{
			0x45, 0, 0, 24, 0x12, 0x34,
			0x00, 0x0c, // last, offset 12 * 8
			63, 17, 0x00, 0x00, 10, 0, 1, 5, 10, 71, 2, 9,
		}, b[116:120]),
	}
	if len(got) != len(want) {
		t.Fatalf("%d fragments, want %d", len(got), len(want))
	}
	for i := range want {
		if w := repair(want[i]); !bytes.Equal(got[i], w) {
			t.Errorf("fragment %d\n % x, want\n % x", i, got[i], w)
		}
	}
}

func TestFragmentsCarryOnlyCopiedOptions(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name           string
		options, later []byte
	}{
		{"none copied", []byte{7, 7, 4, 0, 0, 0, 0, 0}, nil},
		{"router alert copied", []byte{148, 4, 0, 0}, []byte{148, 4, 0, 0}},
		{"copied between others", []byte{1, 7, 3, 4, 130, 3, 9, 1, 68, 4, 5, 0}, []byte{130, 3, 9, 0}},
		{"nothing behind the end of the list", []byte{0, 148, 4, 0}, nil},
		{"forty bytes of copied options", bytes.Repeat([]byte{148, 4, 0, 0}, 10), bytes.Repeat([]byte{148, 4, 0, 0}, 10)},
	}
	for _, c := range cases {
		b := ipv4{id: 1, options: c.options}.packet(counting(300))
		fragments := checkFragments(t, b, 100)
		if got := fragments[0][20 : 20+len(c.options)]; !bytes.Equal(got, c.options) {
			t.Errorf("%s: first fragment has % x", c.name, got)
		}
		for _, f := range fragments[1:] {
			if got := f[20 : int(f[0]&15)*4]; !bytes.Equal(got, c.later) {
				t.Errorf("%s: later fragment has % x, want % x", c.name, got, c.later)
			}
		}
	}
}

func TestFragmentsReassembleForEveryMTU(t *testing.T) {
	t.Parallel()
	r := random()
	for mtu := 0; mtu < 1600; mtu++ {
		for _, options := range [][]byte{nil, {7, 7, 4, 0, 0, 0, 0, 0}, {148, 4, 0, 0, 7, 3, 4, 0}} {
			b := ipv4{id: uint16(mtu), tos: 3, options: options}.packet(randomBytes(r, r.IntN(3000)))
			checkFragments(t, b, mtu)
		}
	}
	checkFragments(t, ipv4{}.packet(randomBytes(r, packet.MaxLen-20)), 1500)
	checkFragments(t, ipv4{}.packet(randomBytes(r, packet.MaxLen-20)), 68)
}

// A narrow link behind a wide one: the fragments of fragments make the datagram.
func TestFragmentsMayBeFragmentedFurther(t *testing.T) {
	t.Parallel()
	r := random()
	for range cases(300) {
		b := ipv4{id: 7, options: []byte{148, 4, 0, 0, 7, 3, 4, 0}}.packet(randomBytes(r, 1000+r.IntN(8000)))
		var narrow [][]byte
		for _, wide := range checkFragments(t, b, 600+r.IntN(1400)) {
			narrow = append(narrow, checkFragments(t, wide, 68+r.IntN(500))...)
		}
		r.Shuffle(len(narrow), func(i, j int) { narrow[i], narrow[j] = narrow[j], narrow[i] })
		start, payload, more := reassemble(t, narrow)
		if start != 0 || more || !bytes.Equal(payload, b[28:]) {
			t.Fatalf("%d narrow fragments do not make the datagram", len(narrow))
		}
	}
}

func TestFragmentsLeaveLinkPaddingOut(t *testing.T) {
	t.Parallel()
	b := ipv4{}.packet(counting(100))
	padded := append(slices.Clone(b), 0xee, 0xee, 0xee)
	for i, f := range checkFragments(t, padded, 80) {
		if bytes.Contains(f, []byte{0xee, 0xee}) {
			t.Errorf("fragment %d carries padding", i)
		}
	}
}
