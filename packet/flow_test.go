package packet_test

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"strait.dev/strait/packet"
)

func flowHash(t *testing.T, b []byte) uint32 {
	t.Helper()
	ip := parse(t, b)
	return packet.FlowHash(b, &ip)
}

func TestFlowHashIsTheSameInBothDirections(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string][2][]byte{
		"TCP": {tcp4(tcp{flags: syn}, nil), ipv4{proto: 6, src: podB, dst: podA}.packet(
			swapPorts(tcp{flags: syn | ack}.message(podB, podA, counting(5))))},
		"UDP over IPv6": {udp6(nil), ipv6{next: 17, src: podB6, dst: podA6}.packet(swapPorts(udpMessage(podB6, podA6, nil)))},
		"ping":          {ping4(nil), ipv4{proto: 1, src: podB, dst: podA}.packet(icmpMessage(0, 0, 1, nil))},
		"other":         {ipv4{proto: 50}.packet(counting(8)), ipv4{proto: 50, src: podB, dst: podA}.packet(counting(80))},
	} {
		if there, back := flowHash(t, pair[0]), flowHash(t, pair[1]); there != back {
			t.Errorf("%s: %#x there, %#x back", name, there, back)
		}
	}
}

func swapPorts(u []byte) []byte {
	u[0], u[1], u[2], u[3] = u[2], u[3], u[0], u[1]
	return u
}

func TestG12_AllPacketsOfAFlowHashAlike(t *testing.T) {
	t.Parallel()
	want := flowHash(t, tcp4(tcp{flags: syn, seq: 1}, nil))
	r := random()
	for range 1000 {
		b := tcp4(tcp{flags: ack, seq: r.Uint32()}, randomBytes(r, r.IntN(1400)))
		b[5] = byte(r.Uint32()) // identification
		if got := flowHash(t, repair(b)); got != want {
			t.Fatalf("%#x, want %#x", got, want)
		}
	}
}

func TestG12_AllFragmentsOfADatagramHashAlike(t *testing.T) {
	t.Parallel()
	first := flowHash(t, ipv4{proto: 17, fragment: mf}.packet(udpMessage(podA, podB, counting(16))))
	later := flowHash(t, ipv4{proto: 17, fragment: 3}.packet(counting(99)))
	if first != later {
		t.Errorf("first %#x, later %#x", first, later)
	}
	first = flowHash(t, ipv6{next: 44, extensions: fragmentHeader(17, 0, true, 1)}.packet(counting(16)))
	later = flowHash(t, ipv6{next: 44, extensions: fragmentHeader(17, 16, false, 1)}.packet(counting(5)))
	if first != later {
		t.Errorf("IPv6: first %#x, later %#x", first, later)
	}
}

func TestG12_FlowsSpreadEvenly(t *testing.T) {
	t.Parallel()
	const flows, buckets = 64 * 1000, 64
	spreads := map[string]func(i int) []byte{
		"by port": func(i int) []byte {
			b := udp4(nil)
			binary.BigEndian.PutUint16(b[20:], uint16(i))
			return b
		},
		"by destination": func(i int) []byte {
			return ipv4{proto: 17, dst: netip.AddrFrom4([4]byte{10, 71, byte(i >> 8), byte(i)})}.packet(counting(8))
		},
		"by IPv6 destination": func(i int) []byte {
			a := podB6.As16()
			binary.BigEndian.PutUint16(a[14:], uint16(i))
			return ipv6{next: 17, dst: netip.AddrFrom16(a)}.packet(counting(8))
		},
	}
	for name, flow := range spreads {
		var low, high [buckets]int
		for i := range flows {
			h := flowHash(t, flow(i))
			low[h%buckets]++
			high[h>>26]++
		}
		for i := range buckets {
			for _, n := range []int{low[i], high[i]} {
				if n < 800 || n > 1200 { // 1000 expected, standard deviation 31
					t.Errorf("%s: bucket %d has %d of 1000 flows", name, i, n)
				}
			}
		}
	}
}
