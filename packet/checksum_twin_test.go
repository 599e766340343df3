package packet_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip/checksum"

	"strait.dev/strait/packet"
)

// slowSum adds the 16-bit words of parts, of which only the last may be odd in
// length, as RFC 1071 section 1 says it.
func slowSum(parts ...[]byte) uint16 {
	sum := 0
	for _, b := range parts {
		for i, v := range b {
			if i%2 == 0 {
				sum += int(v) << 8
			} else {
				sum += int(v)
			}
			for sum > 0xffff {
				sum = sum - 0x10000 + 1 // the carry comes round
			}
		}
	}
	return uint16(sum)
}

// pseudoHeader is the one of RFC 9293 section 3.1 or RFC 8200 section 8.1, byte
// for byte.
func pseudoHeader(src, dst netip.Addr, proto uint8, length int) []byte {
	b := append(src.AsSlice(), dst.AsSlice()...)
	if src.Is4() {
		b = append(b, 0, proto)
		return binary.BigEndian.AppendUint16(b, uint16(length))
	}
	b = binary.BigEndian.AppendUint32(b, uint32(length))
	return append(b, 0, 0, 0, proto)
}

// random is the same in every run.
func random() *rand.Rand { return rand.New(rand.NewPCG(1624, 1071)) }

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// edges are the words at which one's complement arithmetic goes wrong.
var edges = []uint16{0x0000, 0x0001, 0x00ff, 0x0100, 0x7fff, 0x8000, 0xfeff, 0xff00, 0xfffe, 0xffff}

func TestSumEqualsTheSumOfItsWords(t *testing.T) {
	t.Parallel()
	r := random()
	for n := range 400 {
		for _, b := range [][]byte{randomBytes(r, n), make([]byte, n), bytes.Repeat([]byte{0xff}, n)} {
			for _, initial := range append(edges, uint16(r.Uint32())) {
				got := packet.Sum(b, initial)
				if want := slowSum([]byte{byte(initial >> 8), byte(initial)}, b); got != want {
					t.Fatalf("Sum of %d bytes from %#04x = %#04x, want %#04x: % x", n, initial, got, want, b)
				}
				if want := checksum.Checksum(b, initial); got != want {
					t.Fatalf("Sum of %d bytes from %#04x = %#04x, gvisor has %#04x", n, initial, got, want)
				}
			}
		}
	}
}

func TestSumOfAFullBufferCarriesOnce(t *testing.T) {
	t.Parallel()
	b := bytes.Repeat([]byte{0xff}, packet.MaxLen)
	if got, want := packet.Sum(b, 0xffff), slowSum([]byte{0xff, 0xff}, b); got != want {
		t.Fatalf("Sum = %#04x, want %#04x", got, want)
	}
}

func TestSumDoesNotDependOnAlignment(t *testing.T) {
	t.Parallel()
	b := randomBytes(random(), 200)
	want := packet.Sum(b, 0)
	for shift := range 16 {
		moved := append(make([]byte, shift), b...)[shift:]
		if got := packet.Sum(moved, 0); got != want {
			t.Fatalf("shifted by %d: %#04x, want %#04x", shift, got, want)
		}
	}
}

// The examples of RFC 1624 section 4: a header whose other words sum to 0x22d0
// with 0x5555 among them, which becomes 0x3285.
func TestRFC1624_ExamplesOfSection4(t *testing.T) {
	t.Parallel()
	if got := packet.Update(0xdd2f, packet.DeltaOf(0x5555, 0x3285)); got != 0x0000 {
		t.Errorf("HC' = %#04x, want 0x0000, not the 0xffff that equation 2 gives", got)
	}
	if got := packet.Update(0x0000, packet.DeltaOf(0x3285, 0x5555)); got != 0xdd2f {
		t.Errorf("back: HC = %#04x, want 0xdd2f", got)
	}
}

func TestRFC1624_UpdateEqualsFullComputation(t *testing.T) {
	t.Parallel()
	check := func(rest, from, to uint16) {
		before := ^slowSum16(rest, from)
		want := ^slowSum16(rest, to)
		got := packet.Update(before, packet.DeltaOf(from, to))
		if got == want {
			return
		}
		// Both zeros of one's complement verify alike. A full computation gives
		// 0xffff only over nothing but zeros, which no header is.
		if rest == 0 && (from == 0 || to == 0) {
			return
		}
		t.Fatalf("rest %#04x, %#04x -> %#04x: %#04x, want %#04x", rest, from, to, got, want)
	}
	for _, rest := range edges {
		for _, from := range edges {
			for to := range 0x10000 {
				check(rest, from, uint16(to))
			}
		}
	}
	r := random()
	for range cases(3_000_000) {
		v := r.Uint64()
		check(uint16(v), uint16(v>>16), uint16(v>>32))
	}
}

func slowSum16(words ...uint16) uint16 {
	var b []byte
	for _, w := range words {
		b = binary.BigEndian.AppendUint16(b, w)
	}
	return slowSum(b)
}

func TestRFC1624_DeltasAddUp(t *testing.T) {
	t.Parallel()
	r := random()
	for range cases(1_000_000) {
		v := r.Uint64()
		a, b, c := uint16(v), uint16(v>>16), uint16(v>>32)
		hc := ^slowSum16(0x4500, a, b)
		together := packet.Update(hc, packet.DeltaOf(a, c).Plus(packet.DeltaOf(b, a)))
		if want := ^slowSum16(0x4500, c, a); together != want {
			t.Fatalf("%#04x,%#04x -> %#04x,%#04x: %#04x, want %#04x", a, b, c, a, together, want)
		}
	}
}

func TestPseudoSumEqualsThePseudoHeader(t *testing.T) {
	t.Parallel()
	r := random()
	for range cases(20_000) {
		src, dst := netip.AddrFrom4([4]byte(randomBytes(r, 4))), netip.AddrFrom4([4]byte(randomBytes(r, 4)))
		if r.IntN(2) == 0 {
			src, dst = netip.AddrFrom16([16]byte(randomBytes(r, 16))), netip.AddrFrom16([16]byte(randomBytes(r, 16)))
		}
		proto, length := uint8(r.Uint32()), r.IntN(packet.MaxLen+1)
		got := packet.PseudoSum(src, dst, proto, length)
		if want := slowSum(pseudoHeader(src, dst, proto, length)); got != want {
			t.Fatalf("%v %v %d %d: %#04x, want %#04x", src, dst, proto, length, got, want)
		}
	}
}
