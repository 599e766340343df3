//go:build lab || nightly

package kernelnat

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"strait.dev/strait/test/lab"
)

// Here the kernel tracks connections, by which it finds the packet that an ICMP error
// quotes: every error is about a packet that has crossed before.
func TestRFC5508REQ3_REQ4_REQ5_PipelineAndKernelTranslatePrefixesInICMPErrorsAlike(t *testing.T) {
	const batches, flows = 24, 48
	remote := lab.SeenAs("10.71.0.0/16", "fd00:71::/48", "10.73.0.0/16", "fd00:73::/48")
	rules := lab.NatRules("ip", remote[0], natTunnelMTU-40) + lab.NatRules("ip6", remote[1], natTunnelMTU-60) + `
table inet strict {
	chain invalid {
		type filter hook forward priority filter
		ct state invalid drop
	}
}
`
	k := newKernelRouter(t, "", rules, trackedRoutes)
	// In a batch a rule without addresses is for IPv4.
	k.router.Run(t, "ip", "-6", "rule", "add", "iif", "strait0", "lookup", "100")
	p := newPipeline(t, k.encapsulation)
	c := newComparison(k.encapsulation)
	m := &maker{Rand: rand.New(rand.NewPCG(55, 8))}
	for n := range batches {
		m.fromNode = n%2 == 0
		there := m.batch(k, flows, func(int) sample { return m.firstOfFlow() })
		crossed := c.compare(t, k, p, m.fromNode, there)
		m.fromNode = !m.fromNode
		c.compare(t, k, p, m.fromNode, m.batch(k, flows, func(index int) sample { return m.errorAbout(crossed[index].out[0]) }))
	}
	c.report(t)
}

// firstOfFlow returns the first packet of a flow of a pod, without special features.
func (m *maker) firstOfFlow() sample {
	v6 := m.oneIn(2)
	src, dst := lab.Addr("10.0.7.9"), lab.Addr("10.0.1.5")
	switch {
	case m.fromNode && v6:
		src, dst = lab.Addr("fd00:10:0:1::5"), lab.Addr("fd00:71:0:7::9")
	case m.fromNode:
		src, dst = lab.Addr("10.0.1.5"), lab.Addr("10.71.7.9")
	case v6:
		src, dst = lab.Addr("fd00:10:0:7::9"), lab.Addr("fd00:10:0:1::5")
	}
	s := sample{}
	proto, sumAt := byte(0), 0
	var b []byte
	switch m.IntN(3) {
	case 0:
		s.kind, proto, sumAt = "TCP", lab.ProtoTCP, 16
		b = m.bytes(20)
		b[12], b[13] = 0x50, 2
	case 1:
		s.kind, proto, sumAt = "UDP", lab.ProtoUDP, 6
		b = append(m.bytes(8), m.bytes(m.IntN(1200))...)
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
	default:
		s.kind, proto, sumAt = "echo", lab.ProtoICMP, 2
		b = append([]byte{8, 0, 0, 0}, m.bytes(4+m.IntN(1200))...)
		if v6 {
			proto, b[0] = lab.ProtoICMPv6, 128
		}
	}
	// Each has its own flow: the first port, or the identifier, is the key.
	at := 0
	if s.kind == "echo" {
		at = 4
	}
	binary.BigEndian.PutUint16(b[at:], uint16(m.key))
	s.ip = m.finished(src, dst, proto, sumAt, b)
	s.kind = familyName(src) + s.kind
	return s
}

// errorAbout quotes a packet as it was dropped: on the far side, with an expired TTL,
// truncated anywhere.
func (m *maker) errorAbout(crossed []byte) sample {
	quote := append([]byte(nil), crossed...)
	p, _ := lab.ParseIP(quote)
	least, longest, proto := 28, 576-28, byte(lab.ProtoICMP)
	if p.Src.Is6() {
		least, longest, proto = 48, 1280-48, lab.ProtoICMPv6
		quote[7] = 1
	} else {
		quote[8] = 1
		resum4(quote)
	}
	quote = quote[:min(len(quote), least+m.IntN(longest))]
	type form struct {
		kind, code byte
		rest       uint32
	}
	e := one(m, form{3, 0, 0}, form{3, 1, 0}, form{3, 3, 0}, form{3, 4, 1300}, form{3, 13, 0}, form{11, 0, 0}, form{11, 1, 0}, form{12, 0, 8 << 24})
	if proto == lab.ProtoICMPv6 {
		e = one(m, form{1, 0, 0}, form{1, 1, 0}, form{1, 4, 0}, form{2, 0, 1300}, form{3, 0, 0}, form{4, 1, 6})
	}
	b := binary.BigEndian.AppendUint32([]byte{e.kind, e.code, 0, 0}, e.rest)
	b = append(b, quote...)
	from := p.Dst // the pod itself, or a router before it
	s := sample{kind: familyName(from) + "error"}
	if m.oneIn(2) {
		from, s.kind, s.trait = from.Next(), s.kind+" of a router", routers
	}
	s.ip = m.finished(from, p.Src, proto, 2, b)
	if m.oneIn(12) {
		s.ip[len(s.ip)-1] ^= 0x55 // RFC 5508 REQ-3
		s.kind += ", wrong checksum"
	}
	return s
}

// finished prepends an IP header to b and sets its checksum.
func (m *maker) finished(src, dst netip.Addr, proto byte, sumAt int, b []byte) []byte {
	binary.BigEndian.PutUint16(b[sumAt:], 0)
	p := lab.IPPacket{Src: src, Dst: dst, Proto: proto}
	start := uint32(p.PseudoSum(len(b)))
	if proto == lab.ProtoICMP {
		start = 0
	}
	binary.BigEndian.PutUint16(b[sumAt:], ^lab.OnesSum(start, b))
	if src.Is6() {
		h := header6{label: m.key, hop: 64, next: proto, src: src, dst: dst, payload: b}
		return h.packet()
	}
	h := header4{id: uint16(m.key), ttl: 64, proto: proto, src: src, dst: dst, payload: b}
	return h.packet()
}

func familyName(a netip.Addr) string {
	if a.Is6() {
		return "IPv6 "
	}
	return "IPv4 "
}
