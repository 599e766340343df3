package underlay

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// classIn is the class of a sender as BySource defines it.
func classIn(from netip.AddrPort) int {
	return int((bucketHash(from.Addr()) * hashFactor) >> 29)
}

func bucketHash(from netip.Addr) (hash uint32) {
	for b := from.AsSlice(); len(b) > 0; b = b[4:] {
		hash ^= binary.BigEndian.Uint32(b)
	}
	return hash
}

// run interprets a program for an empty datagram with this IP header.
func run(t testing.TB, code []unix.SockFilter, ip []byte) uint32 {
	t.Helper()
	var a, x uint32
	for at := 0; ; at++ {
		if at >= len(code) {
			t.Fatal("the program ends without a result")
		}
		switch c := code[at]; c.Code {
		case bpfLoad:
			a = binary.BigEndian.Uint32(ip[c.K-netOffset:])
		case bpfLength:
			a = 0 // of the payload
		case bpfSave:
			x = a
		case bpfXor:
			a ^= x
		case bpfMultiply:
			a *= c.K
		case bpfShift:
			a >>= c.K
		case bpfAtLeast:
			if a >= c.K {
				at += int(c.Jt)
			} else {
				at += int(c.Jf)
			}
		case bpfEqual:
			if a == c.K {
				at += int(c.Jt)
			} else {
				at += int(c.Jf)
			}
		case bpfReturn:
			return c.K
		default:
			t.Fatalf("instruction %d: code %#x", at, c.Code)
		}
	}
}

// A sender of either family is in the class of its address, and the classes of many have as many senders.
func TestTheProgramSelectsTheClassOfASender(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	for _, six := range []bool{false, true} {
		code, count := BySource.filter(six), make([]int, sourceClasses)
		const senders = 4096
		for range senders {
			header, source := make([]byte, 20), sourceOffset
			from := netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, r.Uint32())))
			if six {
				header, source = make([]byte, 40), source6
				from = netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, r.Uint64()), r.Uint64())))
			}
			copy(header[source:], from.AsSlice())
			class := run(t, code, header)
			if int(class) != classIn(netip.AddrPortFrom(from, 1)) {
				t.Fatalf("%v is in class %d, want %d", from, class, classIn(netip.AddrPortFrom(from, 1)))
			}
			count[class]++
		}
		for class, n := range count {
			if n < senders/sourceClasses/2 {
				t.Errorf("class %d has %d of %d senders", class, n, senders)
			}
		}
	}
}
