//go:build lab || nightly

package kernelnat

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"slices"

	"strait.dev/strait/test/lab"
)

// sample is one packet for both gateways.
type sample struct {
	kind  string // the type under which it is counted
	trait trait
	ip    []byte
	frame []byte // from a node: the complete frame; nil: as a correct node encapsulates ip

	ecn      byte // of the outer header
	outsider bool // the outer source is not the node
}

// trait is a set of unusual properties of a packet, by which exceptions apply.
type trait int

const (
	recordsRoute   trait = 1 << iota // an IPv4 option in which routers write
	hasOptions                       // any IPv4 options
	oddMSS                           // an MSS option at an odd offset
	manyMSS                          // more than one MSS option
	firstSYN                         // a SYN in the first of several fragments
	cutShort                         // a truncated upper-layer header
	type0                            // a type 0 routing header
	authenticated                    // an authentication header
	laterFragment6                   // an IPv6 fragment, not the first
	routers                          // an ICMP error of a router, not of the packet's destination
	congested                        // ECN is CE
	copied                           // a SYN with TTL 0
)

// The gateways' MTUs in these tests, in bytes of inner packet: they differ from every
// link's MTU, so that results are unambiguous.
const (
	natTunnelMTU  = 1390
	natOverlayMTU = 1450
)

// maker builds packets from a seed. key is stored where it survives every path through a
// gateway: in the IPv4 ID or the IPv6 flow label.
type maker struct {
	*rand.Rand
	fromNode bool
	key      uint32
}

func one[T any](m *maker, of ...T) T { return of[m.IntN(len(of))] }

// oneIn returns true once in n times.
func (m *maker) oneIn(n int) bool { return m.IntN(n) == 0 }

// batch returns the packets of a batch, each with its key.
func (m *maker) batch(k *kernelRouter, size int, packet func(index int) sample) (batch []sample) {
	for i := range size {
		m.key = k.keyOf(i)
		batch = append(batch, packet(i))
	}
	return batch
}

// ends returns a source and a destination of packets in that direction.
func (m *maker) ends(v6 bool) (src, dst netip.Addr) {
	host := func(prefix string) netip.Addr {
		b := netip.MustParsePrefix(prefix).Addr().AsSlice()
		b[len(b)-1] = byte(2 + m.IntN(250))
		if subnet := m.IntN(200) + 2; len(b) == 4 && b[2] == 0 { // not the node's subnet, which has the same addresses
			b[2] = byte(subnet)
		} else if len(b) == 16 && b[7] == 0 {
			b[7] = byte(subnet)
			m.fill(b[8:15])
		}
		a, _ := netip.AddrFromSlice(b)
		return a
	}
	switch {
	case m.fromNode && !v6:
		src = one(m, host("10.0.1.0/24"), host("10.0.1.0/24"), host("10.0.1.0/24"), lab.NodeInternal[0])
		dst = one(m, host("10.71.0.0/16"), host("10.71.0.0/16"), host("10.73.0.0/16"))
	case m.fromNode:
		src = one(m, host("fd00:10:0:1::/64"), host("fd00:10:0:1::/64"), host("fd00:10:0:1::/64"), lab.NodeInternal[1])
		dst = one(m, host("fd00:71::/48"), host("fd00:71::/48"), host("fd00:73::/48"))
	case !v6:
		src = one(m, host("10.0.0.0/16"), host("10.0.0.0/16"), host("10.70.0.0/16"))
		dst = one(m, host("10.0.1.0/24"), host("10.0.1.0/24"), host("10.0.1.0/24"), lab.NodeExternal[0])
	default:
		src = one(m, host("fd00:10::/48"), host("fd00:10::/48"), host("fd00:70::/48"))
		dst = one(m, host("fd00:10:0:1::/64"), host("fd00:10:0:1::/64"), host("fd00:10:0:1::/64"), lab.NodeExternal[1])
	}
	return src, dst
}

func (m *maker) fill(b []byte) {
	for i := range b {
		b[i] = byte(m.Uint32())
	}
}

func (m *maker) bytes(n int) []byte {
	b := make([]byte, n)
	m.fill(b)
	return b
}

// size returns the size of a payload after that many bytes of headers: small ones, ones
// around the MTU, and sizes between.
func (m *maker) size(headers int) int {
	mtu := natTunnelMTU
	if !m.fromNode {
		mtu = natOverlayMTU
	}
	n := one(m, m.IntN(9), m.IntN(64), m.IntN(64), m.IntN(1300), mtu-headers+m.IntN(5)-2, mtu-headers+m.IntN(60))
	return max(0, n)
}

func (m *maker) ttl() byte {
	return one[byte](m, 64, 64, 64, 64, 64, 64, 64, 255, 128, 2, 2, 1, 0)
}

// any returns a packet that a router may forward, if its TTL and size permit.
func (m *maker) any() (s sample) {
	v6 := m.oneIn(2)
	src, dst := m.ends(v6)
	if v6 {
		s = m.any6(src, dst)
	} else {
		s = m.any4(src, dst)
	}
	if m.fromNode {
		s.ecn = one[byte](m, 0, 0, 1, 2, 3)
	} else if isCopy(s.ip) {
		s.trait |= copied
	}
	return s
}

// isCopy reports whether a packet is a SYN with TTL 0.
func isCopy(b []byte) bool {
	p, _ := lab.ParseIP(b)
	if b[0]>>4 == 6 {
		at, proto, _ := upper6(b)
		p.Proto, p.Payload = proto, b[at:]
	}
	return p.Hop == 0 && p.Proto == lab.ProtoTCP && len(p.Payload) > 13 && p.Payload[13]&2 != 0
}

func (m *maker) any4(src, dst netip.Addr) sample {
	h := header4{tos: one[byte](m, 0, 0, 0x10, 0xb8, 0x01, 0x02, 0x03), id: uint16(m.key), ttl: m.ttl(), src: src, dst: dst}
	if m.oneIn(2) {
		h.fragment = 0x4000 // DF
	}
	s := sample{}
	if m.oneIn(6) {
		h.options, s.trait = m.options4()
	}
	if h.tos&3 == 3 {
		s.trait |= congested
	}
	var about trait
	if m.oneIn(6) {
		h.proto = one[byte](m, lab.ProtoTCP, lab.ProtoUDP, lab.ProtoICMP, 132)
		s.kind, about = m.fragment4(&h)
	} else {
		s.kind, h.proto, h.payload, about = m.upper(src, dst, 20+len(h.options))
	}
	s.ip, s.kind, s.trait = h.packet(), "IPv4 "+s.kind, s.trait|about
	return s
}

// options4 returns IPv4 options, which must be kept.
func (m *maker) options4() (options []byte, about trait) {
	about = hasOptions
	switch m.IntN(6) { // a packet has at most one of these
	case 0:
		options, about = append(options, 7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 1), about|recordsRoute
	case 1:
		options, about = append(options, 68, 12, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0), about|recordsRoute // timestamps
	case 2:
		options = append(options, 148, 4, 0, 0) // router alert
	}
	switch m.IntN(3) {
	case 0:
		options = append(options, 0x9e, 6, 1, 2, 3, 4, 1, 1) // unknown, copied
	case 1:
		options = append(options, 0x1e, 4, 9, 9) // unknown, not copied
	default:
		options = append(options, 1, 1, 1, 1)
	}
	return options, about
}

// fragment4 makes h a fragment: the first, a middle one, or the last.
func (m *maker) fragment4(h *header4) (kind string, about trait) {
	headers := 20 + len(h.options)
	switch m.IntN(3) {
	case 0:
		h.fragment |= 0x2000
		h.proto, h.payload, about = m.firstOf(h.src, h.dst, headers)
		return "first fragment", about
	case 1:
		h.fragment |= 0x2000 | uint16(1+m.IntN(4000))
		h.payload = m.bytes((m.size(headers) + 8) &^ 7)
		return "later fragment", 0
	}
	h.fragment |= uint16(1 + m.IntN(4000))
	h.payload = m.bytes(m.size(headers) + 1)
	return "last fragment", 0
}

// firstOf returns the payload of a first fragment.
func (m *maker) firstOf(src, dst netip.Addr, headers int) (proto byte, payload []byte, about trait) {
	_, proto, payload, about = m.upper(src, dst, headers)
	payload = append(payload, m.bytes(24)...)
	if proto == lab.ProtoTCP && payload[13]&2 != 0 {
		about |= firstSYN
	}
	return proto, payload[:len(payload)&^7], about &^ cutShort // its end is padded
}

func (m *maker) any6(src, dst netip.Addr) sample {
	h := header6{class: one[byte](m, 0, 0, 0xb8, 0x01, 0x02, 0x03), label: m.key, hop: m.ttl(), src: src, dst: dst}
	s := sample{}
	if m.oneIn(4) {
		h.extensions, s.trait = m.extensions6()
	}
	if h.class&3 == 3 {
		s.trait |= congested
	}
	fragment := extension{44, binary.BigEndian.AppendUint32([]byte{0, 0, 0, 1}, m.Uint32())} // more follow
	headers := 40
	for _, e := range h.extensions {
		headers += len(e.body)
	}
	var about trait
	switch m.IntN(12) {
	case 0:
		h.extensions, s.kind = append(h.extensions, fragment), "first fragment"
		h.next, h.payload, about = m.firstOf(src, dst, headers+8)
	case 1:
		binary.BigEndian.PutUint16(fragment.body[2:], uint16(1+m.IntN(4000))<<3)
		h.extensions, s.kind, about = append(h.extensions, fragment), "last fragment", laterFragment6
		h.next, h.payload = one[byte](m, lab.ProtoTCP, lab.ProtoUDP, lab.ProtoICMPv6), m.bytes(m.size(headers+8)+1)
	default:
		s.kind, h.next, h.payload, about = m.upper(src, dst, headers)
		if len(h.extensions) > 0 {
			s.kind += " behind extensions"
		}
	}
	s.ip, s.kind, s.trait = h.packet(), "IPv6 "+s.kind, s.trait|about
	return s
}

// extensions6 returns one or two extension headers, in the order of RFC 8200 section 4.1.
func (m *maker) extensions6() (chain []extension, about trait) {
	if m.oneIn(3) {
		chain = append(chain, extension{0, []byte{0, 0, 1, 4, 0, 0, 0, 0}}) // PadN
	}
	switch m.IntN(8) {
	case 0:
		chain, about = append(chain, extension{43, append([]byte{0, 2, 0, 0, 0, 0, 0, 0}, m.bytes(16)...)}), type0
	case 1, 2:
		chain = append(chain, extension{43, append([]byte{0, 2, 2, 0, 0, 0, 0, 0}, m.bytes(16)...)}) // type 2
	case 3:
		chain, about = append(chain, extension{51, append([]byte{0, 4, 0, 0}, m.bytes(20)...)}), authenticated
	default:
		chain = append(chain, extension{60, []byte{0, 1, 0x1e, 4, 1, 2, 3, 4, 1, 6, 0, 0, 0, 0, 0, 0}}) // an unknown option
	}
	return chain, about
}

// upper returns the upper-layer packet after that many bytes of IP headers.
func (m *maker) upper(src, dst netip.Addr, headers int) (kind string, proto byte, payload []byte, about trait) {
	icmp := byte(lab.ProtoICMP)
	if src.Is6() {
		icmp = lab.ProtoICMPv6
	}
	sum := func(at int) {
		p := lab.IPPacket{Src: src, Dst: dst, Proto: proto}
		start := uint32(p.PseudoSum(len(payload)))
		if proto == lab.ProtoICMP {
			start = 0
		}
		c := ^lab.OnesSum(start, payload)
		if c == 0 && proto == lab.ProtoUDP {
			c = 0xffff
		}
		if m.oneIn(12) { // already damaged, and to stay so
			c ^= uint16(1 + m.IntN(0xfffe))
			kind += ", wrong checksum"
		}
		binary.BigEndian.PutUint16(payload[at:], c)
	}
	switch m.IntN(10) {
	case 0, 1, 2:
		kind, proto = "TCP", lab.ProtoTCP
		payload, about = m.tcp(headers)
		sum(16)
	case 3, 4:
		kind, proto = "UDP", lab.ProtoUDP
		payload = m.udp(headers)
		sum(6)
	case 5:
		kind, proto = "UDP without checksum", lab.ProtoUDP
		payload = m.udp(headers)
	case 6, 7:
		kind, proto = "echo", icmp
		payload = append([]byte{one[byte](m, 8, 0), 0, 0, 0}, m.bytes(4+m.size(headers+8))...)
		if icmp == lab.ProtoICMPv6 {
			payload[0] = one[byte](m, 128, 129)
		}
		sum(2)
	case 8:
		kind, proto = "other protocol", one[byte](m, 132, 47, 50, 94, 253)
		payload = m.bytes(m.size(headers))
	default:
		kind, about, proto = "truncated header", cutShort, one[byte](m, lab.ProtoTCP, lab.ProtoUDP, icmp)
		least := 4 // of an ICMP query; one without any message is not translated
		if proto == lab.ProtoTCP || proto == lab.ProtoUDP {
			least = 0
		}
		payload = m.bytes(least + m.IntN(map[byte]int{lab.ProtoTCP: 20, lab.ProtoUDP: 8, icmp: 4}[proto]))
		if proto == icmp {
			payload[0] = map[byte]byte{lab.ProtoICMP: 8, lab.ProtoICMPv6: 128}[icmp]
		}
	}
	return kind, proto, payload, about
}

func (m *maker) udp(headers int) []byte {
	b := append(make([]byte, 8), m.bytes(m.size(headers+8))...)
	m.fill(b[:4])
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
	return b
}

func (m *maker) tcp(headers int) ([]byte, trait) {
	var about trait
	var options []byte
	if m.oneIn(2) {
		mss := binary.BigEndian.AppendUint16([]byte{2, 4}, one[uint16](m, 1, 536, 1329, 1330, 1331, 1349, 1350, 1351, 1460, 8960, 65535))
		switch m.IntN(5) {
		case 0:
			options, about = append(append([]byte{1}, mss...), 1, 1, 1), oddMSS
		case 1:
			options, about = slices.Concat(mss, mss), manyMSS
		case 2:
			options = append([]byte{4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 1, 1, 1}, mss...)
		case 3:
			options = []byte{3, 3, 7, 1} // only window scale
		default:
			options = mss
		}
	}
	b := m.bytes(20)
	b[12] = byte(20+len(options)) / 4 << 4
	b[13] = one[byte](m, 0x02, 0x12, 0x10, 0x18, 0x11, 0x04, 0xc2, 0x3f, 0)
	b = append(b, options...)
	payload := 0
	if b[13]&2 == 0 || m.oneIn(4) {
		payload = m.size(headers + len(b))
	}
	return append(b, m.bytes(payload)...), about
}

// header4 is the header of an IPv4 packet to build.
type header4 struct {
	tos, ttl, proto byte
	id, fragment    uint16 // fragment: flags and offset
	src, dst        netip.Addr
	options         []byte // whole words
	payload         []byte
}

func (h *header4) packet() []byte {
	b := make([]byte, 20, 20+len(h.options)+len(h.payload))
	b[0], b[1], b[8], b[9] = 0x40|byte(20+len(h.options))/4, h.tos, h.ttl, h.proto
	binary.BigEndian.PutUint16(b[2:], uint16(cap(b)))
	binary.BigEndian.PutUint16(b[4:], h.id)
	binary.BigEndian.PutUint16(b[6:], h.fragment)
	copy(b[12:], h.src.AsSlice())
	copy(b[16:], h.dst.AsSlice())
	b = append(b, h.options...)
	binary.BigEndian.PutUint16(b[10:], ^lab.OnesSum(0, b))
	return append(b, h.payload...)
}

// header6 is the header of an IPv6 packet to build.
type header6 struct {
	class, hop, next byte // next: the protocol behind the extension headers
	label            uint32
	src, dst         netip.Addr
	extensions       []extension
	payload          []byte
}

// extension is an extension header, whose first byte is set later.
type extension struct {
	kind byte
	body []byte
}

func (h *header6) packet() []byte {
	var rest []byte
	next := h.next
	for _, e := range slices.Backward(h.extensions) {
		e.body[0], next = next, e.kind
		rest = append(slices.Clone(e.body), rest...)
	}
	rest = append(rest, h.payload...)
	b := binary.BigEndian.AppendUint32(nil, 6<<28|uint32(h.class)<<20|h.label)
	b = binary.BigEndian.AppendUint16(b, uint16(len(rest)))
	b = append(b, next, h.hop)
	b = append(b, h.src.AsSlice()...)
	b = append(b, h.dst.AsSlice()...)
	return append(b, rest...)
}
