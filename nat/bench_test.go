package nat_test

import (
	"testing"

	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

func BenchmarkTranslate(b *testing.B) {
	m := mapFor(b, seenB, podA, 16)
	for b.Loop() {
		m.Translate(seenB)
	}
}

func BenchmarkRewriteTCPv4(b *testing.B) {
	benchmarkRewrite(b, whole(packet.ProtoTCP, podA, seenB, make([]byte, 1360)), mapFor(b, seenB, podA, 16))
}

func BenchmarkRewriteTCPv6(b *testing.B) {
	benchmarkRewrite(b, whole(packet.ProtoTCP, podA6, seenB6, make([]byte, 1340)), mapFor(b, seenB6, podA6, 48))
}

func benchmarkRewrite(b *testing.B, p []byte, dst *nat.Map) {
	original := parse(b, p)
	b.ReportAllocs()
	for b.Loop() {
		h := original
		nat.Rewrite(p, &h, nil, dst)
	}
}

func BenchmarkRewriteQuoteUDPv4(b *testing.B) {
	m := mapFor(b, seenB, podA, 16)
	p := icmpError(seenB, podA, whole(packet.ProtoUDP, podA, seenB, make([]byte, 500)))
	h := parse(b, p)
	var original packet.IP
	quote, _ := packet.ParseQuote(p, &h, &original)
	b.ReportAllocs()
	for b.Loop() {
		q := original
		nat.RewriteQuote(p, &h, quote, &q, nil, m)
	}
}
