package packet_test

import (
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"strait.dev/strait/packet"
)

// One operation is a datagram of 8000 bytes in 6 fragments.
func BenchmarkReassembly(b *testing.B) {
	for name, pkt := range map[string][]byte{"IPv4": udp4(counting(8000)), "IPv6": udp6(counting(8000))} {
		fragments := cut(b, pkt, 1400, 7)
		ips := make([]packet.IP, len(fragments))
		for i, f := range fragments {
			ips[i] = parse(b, f)
		}
		b.Run(name, func(b *testing.B) {
			r := newReassembly(1<<20, 64)
			b.SetBytes(int64(len(pkt)))
			b.ReportAllocs()
			for b.Loop() {
				for i, f := range fragments {
					r.Add(f, &ips[i], start)
				}
			}
		})
	}
}

// One operation is a fragment of a datagram that never becomes whole, in full memory.
func BenchmarkReassemblyFlood(b *testing.B) {
	for name, sources := range map[string]uint32{"1 source": 1, "65536 sources": 1 << 16} {
		b.Run(name, func(b *testing.B) {
			r := newReassembly(4<<20, 64)
			pkt := piece{payload: counting(1376), more: true}.packet()
			ip := parse(b, pkt)
			now, n := start, uint32(0)
			b.ReportAllocs()
			for b.Loop() {
				n++
				now = now.Add(time.Microsecond)
				binary.BigEndian.PutUint16(pkt[4:], uint16(n))
				var src [4]byte
				binary.BigEndian.PutUint32(src[:], 0x0a090000+n%sources)
				ip.Src = netip.AddrFrom4(src)
				r.Add(pkt, &ip, now)
			}
		})
	}
}

// One operation is a fragment of 8 bytes in a datagram that gets thousands, the
// last first.
func BenchmarkReassemblyTinyFragments(b *testing.B) {
	const n = 8000
	var fragments [n][]byte
	var ips [n]packet.IP
	for i := range fragments {
		fragments[i] = piece{offset: 8 * (n - i), payload: counting(8), more: true}.packet()
		ips[i] = parse(b, fragments[i])
	}
	r := newReassembly(1<<20, 64)
	i, id := 0, uint16(0)
	b.ReportAllocs()
	for b.Loop() {
		if i == n {
			i = 0
			id++
		}
		binary.BigEndian.PutUint16(fragments[i][4:], id)
		r.Add(fragments[i], &ips[i], start)
		i++
	}
}
