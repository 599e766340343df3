package packet_test

import (
	"slices"
	"testing"

	"strait.dev/strait/packet"
)

func BenchmarkParse(b *testing.B) {
	for name, pkt := range map[string][]byte{
		"IPv4":            udp4(counting(1400)),
		"IPv4 options":    ipv4{options: []byte{148, 4, 0, 0}}.packet(counting(1400)),
		"IPv6":            udp6(counting(1400)),
		"IPv6 extensions": ipv6{next: 0, extensions: slices.Concat(extension(60), extension(6))}.packet(counting(1400)),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var ip packet.IP
			for b.Loop() {
				packet.Parse(pkt, &ip)
			}
		})
	}
}

func BenchmarkSum1400(b *testing.B) {
	data := counting(1400)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		packet.Sum(data, 0)
	}
}

func BenchmarkFlowHash(b *testing.B) {
	pkt := tcp4(tcp{flags: ack}, counting(1400))
	ip := parse(b, pkt)
	b.ReportAllocs()
	for b.Loop() {
		packet.FlowHash(pkt, &ip)
	}
}

func BenchmarkClampMSS(b *testing.B) {
	for name, pkt := range map[string][]byte{
		"data": tcp4(tcp{flags: ack, options: timestamps}, counting(1400)),
		"SYN":  tcp4(tcp{flags: syn, options: []byte{2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7}}, nil),
	} {
		b.Run(name, func(b *testing.B) {
			ip := parse(b, pkt)
			original := [2]byte(pkt[42:])
			b.ReportAllocs()
			for b.Loop() {
				copy(pkt[42:], original[:]) // so that there is something to lower again
				packet.ClampMSS(pkt, &ip, 1350)
			}
		})
	}
}

// One operation is the whole packet: 64 KiB into 47 pieces of 1400 bytes.
func BenchmarkSegments(b *testing.B) {
	pkt := tcp4(tcp{flags: ack, partial: true, options: timestamps}, counting(packet.MaxLen-52))
	ip := parse(b, pkt)
	dst := make([]byte, 1400)
	b.SetBytes(int64(len(pkt)))
	b.ReportAllocs()
	for b.Loop() {
		var p packet.Pieces
		p.Segments(pkt, &ip, len(dst))
		for p.Left() {
			p.Next(dst)
		}
	}
}

func BenchmarkFragments(b *testing.B) {
	pkt := udp4(counting(8000))
	ip := parse(b, pkt)
	dst := make([]byte, 1400)
	b.SetBytes(int64(len(pkt)))
	b.ReportAllocs()
	for b.Loop() {
		var p packet.Pieces
		p.Fragments(pkt, &ip, len(dst))
		for p.Left() {
			p.Next(dst)
		}
	}
}

func BenchmarkAppendICMPError(b *testing.B) {
	pkt := udp4(counting(1400))
	ip := parse(b, pkt)
	dst := make([]byte, 0, packet.MaxICMPErrorLen)
	b.ReportAllocs()
	for b.Loop() {
		packet.AppendICMPError(dst, packet.TooBig, 1350, gateway, pkt, &ip)
	}
}
