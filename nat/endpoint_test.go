package nat_test

import (
	"testing"

	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// echo is an ICMP query or its reply.
func echo(f family, kind byte, id uint16) []byte {
	m := []byte{kind, 0, 0, 0, byte(id >> 8), byte(id), 0, 1, 'p', 'i', 'n', 'g'}
	putChecksum(m, f.icmp, f.inside, f.remote)
	return ip{src: f.inside, dst: f.remote, proto: f.icmp}.packet(m)
}

// echoTypes are the types of request and reply.
func echoTypes(f family) (request, reply byte) {
	if f.icmp == packet.ProtoICMP {
		return 8, 0
	}
	return 128, 129
}

func TestEndpointsOfAPacket(t *testing.T) {
	t.Parallel()
	for _, f := range families {
		request, reply := echoTypes(f)
		tcp := whole(packet.ProtoTCP, f.inside, f.remote, nil)
		udp := whole(packet.ProtoUDP, f.inside, f.remote, []byte("0123456789abcdef"))
		first, later := twoFragments(udp, 16)
		for name, c := range map[string]struct {
			b            []byte
			source, dest uint16
			ok           bool
		}{
			"TCP":                 {b: tcp, source: 0x3039, dest: 0x01bb, ok: true},
			"UDP":                 {b: udp, source: 0x3039, dest: 0x01bb, ok: true},
			"first fragment":      {b: first, source: 0x3039, dest: 0x01bb, ok: true},
			"later fragment":      {b: later},
			"echo request":        {b: echo(f, request, 0x1234), source: 0x1234, ok: true},
			"echo reply":          {b: echo(f, reply, 0x1234), dest: 0x1234, ok: true},
			"ICMP error":          {b: icmpError(f.inside, f.remote, tcp)},
			"neither of them":     {b: echo(f, 13, 0x1234)},
			"ICMP cut short":      {b: ip{src: f.inside, dst: f.remote, proto: f.icmp}.packet([]byte{request, 0, 0, 0, 1})},
			"TCP cut short":       {b: ip{src: f.inside, dst: f.remote, proto: packet.ProtoTCP}.packet([]byte{1, 2, 3})},
			"nothing":             {b: ip{src: f.inside, dst: f.remote, proto: packet.ProtoUDP}.packet(nil)},
			"SCTP":                {b: whole(packet.ProtoSCTP, f.inside, f.remote, nil)},
			"the other's ICMP":    {b: ip{src: f.inside, dst: f.remote, proto: packet.ProtoICMP + packet.ProtoICMPv6 - f.icmp}.packet([]byte{request, 0, 0, 0, 1, 2, 3, 4})},
			"TCP, only its ports": {b: ip{src: f.inside, dst: f.remote, proto: packet.ProtoTCP}.packet([]byte{0x30, 0x39, 1, 0xbb}), source: 0x3039, dest: 0x01bb, ok: true},
		} {
			h := parse(t, c.b)
			s, ok := nat.Source(c.b, &h)
			d, also := nat.Destination(c.b, &h)
			if ok != c.ok || also != c.ok || ok && (s != end(f.inside, c.source) || d != end(f.remote, c.dest)) {
				t.Errorf("%s, %s: %v %t, %v %t", f.name, name, s, ok, d, also)
			}
		}
		// As a router quotes them: IP header and 8 bytes.
		for _, b := range [][]byte{tcp, udp, echo(f, request, 7)} {
			h := parse(t, b)
			want, _ := nat.Source(b, &h)
			about := icmpError(f.remote, f.inside, b[:int(h.Header)+8])
			outer := parse(t, about)
			var q packet.IP
			quote, ok := packet.ParseQuote(about, &outer, &q)
			if got, known := nat.Source(quote, &q); !ok || !known || got != want {
				t.Errorf("%s: quoted %v, want %v", f.name, got, want)
			}
		}
		h := parse(t, tcp)
		tcp[int(h.Header)+13] = syn | ack
		if got := nat.TCPFlags(tcp, &h); got != syn|ack {
			t.Errorf("flags %#x", got)
		}
		h = parse(t, udp)
		if got := nat.TCPFlags(udp, &h); got != 0 {
			t.Errorf("flags of UDP %#x", got)
		}
	}
}
