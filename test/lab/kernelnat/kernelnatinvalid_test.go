//go:build lab || nightly

package kernelnat

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"strait.dev/strait/test/lab"
)

// fault is an error in, or an unusual property of, a packet or its encapsulation.
type fault struct {
	name string
	make func() sample
	why  string // not empty: why the two gateways differ on purpose
}

// judge passes every fault to both gateways, and both must forward it or both drop it.
func judge(t *testing.T, k *kernelRouter, p *pipeline, fromNode bool, faults []fault) {
	t.Helper()
	forwarded, dropped, excepted := 0, 0, 0
	for _, f := range faults {
		s := f.make()
		kernels, ours := k.pass(t, fromNode, []sample{s})[0], outcome{}
		if fromNode {
			ours = p.fromNode(s)
		} else {
			ours = p.fromTunnel(s.ip)
		}
		kernels.answer, ours.answer = nil, nil // other tests compare the errors to senders
		differences := outcomesDiffer(kernels, ours)
		if len(differences) == 0 && f.why != "" {
			t.Logf("%s: no exception is needed on this kernel: %s", f.name, f.why)
		}
		switch {
		case len(differences) == 0 && ours.dropped():
			dropped++
		case len(differences) == 0:
			forwarded++
		case f.why == "":
			t.Errorf("%s: %v\n%x", f.name, differences, s.ip)
		default:
			t.Logf("%s: %v: %s", f.name, differences, f.why)
			excepted++
		}
	}
	t.Logf("%d faults: both forward %d and drop %d; %d are excepted", len(faults), forwarded, dropped, excepted)
}

func TestI1_I7_I8_I9_I11_PipelineAndKernelAgreeOnIllFormedPackets(t *testing.T) {
	k := newKernelRouter(t, "", statelessRules(), statelessRoutes)
	p := newPipeline(t, k.encapsulation)
	for _, fromNode := range []bool{true, false} {
		t.Run(map[bool]string{true: "from the node", false: "from the tunnel"}[fromNode], func(t *testing.T) {
			judge(t, k, p, fromNode, slices.Concat(invalidIPv4(k, fromNode), invalidIPv6(k, fromNode)))
		})
	}
}

const (
	notReassembled = "a router does not parse it; strait drops fragments that cannot be part of a datagram"
	hopByHop       = "the kernel parses hop-by-hop options; a router need not (RFC 8200 section 4), strait skips them"
	notSoFar       = "a router does not parse it; strait drops it"
	otherNode      = "the kernel checks on which link an address is, strait on which node"
)

// invalidIPv4 returns modifications of an IPv4 packet that would be forwarded.
func invalidIPv4(k *kernelRouter, fromNode bool) (faults []fault) {
	packet := func(change func(h *header4), spoil func(b []byte) []byte) func() sample {
		return func() sample {
			h := header4{id: uint16(k.keyOf(0)), ttl: 64, proto: lab.ProtoUDP, src: lab.Addr("10.0.9.9"), dst: lab.Addr("10.0.1.5")}
			if fromNode {
				h.src, h.dst = lab.Addr("10.0.1.5"), lab.Addr("10.71.9.9")
			}
			h.payload = []byte{0x1f, 0x90, 0x1f, 0x91, 0, 24, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
			if change != nil {
				change(&h)
			}
			b := h.packet()
			if spoil != nil {
				b = spoil(b)
			}
			return sample{ip: b}
		}
	}
	spoil := func(name, why string, at int, with ...byte) {
		faults = append(faults, fault{name, packet(nil, func(b []byte) []byte { return resum4(lab.Edit(b, at, with...)) }), why})
	}
	cut := func(name string, n int) {
		faults = append(faults, fault{name, packet(nil, func(b []byte) []byte { return b[:n] }), ""})
	}
	change := func(name, why string, change func(h *header4)) {
		faults = append(faults, fault{name, packet(change, nil), why})
	}
	from := func(source, why string) {
		change("IPv4: source "+source, why, func(h *header4) { h.src = lab.Addr(source) })
	}
	faults = append(faults, fault{"IPv4: nothing is wrong", packet(nil, nil), ""})
	for _, version := range []byte{0, 1, 3, 5, 7, 15} {
		spoil(fmt.Sprintf("IPv4: version %d", version), "", 0, version<<4|5)
	}
	spoil("IPv4: version 6 in an IPv4 frame", "", 0, 0x65)
	for _, words := range []byte{0, 1, 4, 12, 15} {
		spoil(fmt.Sprintf("IPv4: header of %d words", words), "", 0, 0x40|words)
	}
	spoil("IPv4: total length 0", "", 2, 0, 0)
	spoil("IPv4: total length below the header", "", 2, 0, 19)
	spoil("IPv4: total length beyond the bytes", "", 2, 0, 45)
	spoil("IPv4: total length 65535", "", 2, 255, 255)
	spoil("IPv4: bytes behind the total length", "", 2, 0, 36)
	spoil("IPv4: reserved flag", "", 6, 0x80, 0)
	spoil("IPv4: DF and more fragments", "", 6, 0x60, 0)
	faults = append(faults, fault{"IPv4: wrong header checksum", packet(nil, func(b []byte) []byte { b[10] ^= 1; return b }), ""})
	cut("IPv4: no bytes", 0)
	cut("IPv4: 1 byte", 1)
	cut("IPv4: 19 bytes", 19)
	cut("IPv4: cut by one byte", 43)

	for _, source := range []string{"0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255"} {
		from(source, "")
	}
	for _, destination := range []string{
		"0.0.0.0", "0.1.2.3", "127.0.0.1", "224.0.0.1", "239.1.2.3", "240.0.0.1", "255.255.255.255", "169.254.169.254", "198.51.100.1",
	} {
		change("IPv4: destination "+destination, "", func(h *header4) { h.dst = lab.Addr(destination) })
	}
	if fromNode {
		from("10.80.0.12", otherNode)
		from("10.0.2.5", "")
	}
	for _, source := range []string{"10.71.9.9", "169.254.1.1", "198.51.100.1"} {
		from(source, "")
	}

	option := func(name, why string, options ...byte) {
		change("IPv4: "+name, why, func(h *header4) { h.options = options })
	}
	option("loose source route", "", 131, 7, 4, 10, 71, 8, 8, 1)
	option("strict source route", "", 137, 7, 4, 10, 71, 8, 8, 1)
	option("loose source route, used up", "", 131, 7, 8, 10, 71, 8, 8, 1)
	option("option of length 0", "", 0x1e, 0, 1, 1)
	option("option of length 1", "", 0x1e, 1, 1, 1)
	option("option that is longer than the header", "", 0x1e, 9, 1, 1)
	option("option without a length", "", 1, 1, 1, 0x1e)
	option("unknown option", "", 0x1e, 4, 9, 9)
	option("end of options, and zeroes", "", 0, 0, 0, 0)

	change("IPv4: fragment that ends behind 65535", notReassembled, func(h *header4) { h.fragment = 0x1fff })
	change("IPv4: fragment of 3 bytes before others", notReassembled, func(h *header4) { h.fragment, h.payload = 0x2001, h.payload[:3] })
	change("IPv4: fragment without a byte", notReassembled, func(h *header4) { h.fragment, h.payload = 0x2001, nil })
	change("IPv4: 8 bytes of UDP in the first fragment", "", func(h *header4) { h.fragment, h.proto, h.payload = 0x2000, lab.ProtoUDP, h.payload[:8] })
	return faults
}

// resum4 recomputes an IPv4 header checksum if there is a header.
func resum4(b []byte) []byte {
	header := int(b[0]&15) * 4
	if header >= 20 && header <= len(b) {
		binary.BigEndian.PutUint16(b[10:], 0)
		binary.BigEndian.PutUint16(b[10:], ^lab.OnesSum(0, b[:header]))
	}
	return b
}

// invalidIPv6 returns modifications of an IPv6 packet that would be forwarded.
func invalidIPv6(k *kernelRouter, fromNode bool) (faults []fault) {
	packet := func(change func(h *header6), spoil func(b []byte) []byte) func() sample {
		return func() sample {
			h := header6{label: k.keyOf(0), hop: 64, next: lab.ProtoUDP, src: lab.Addr("fd00:10:0:9::9"), dst: lab.Addr("fd00:10:0:1::5")}
			if fromNode {
				h.src, h.dst = lab.Addr("fd00:10:0:1::5"), lab.Addr("fd00:71:0:9::9")
			}
			h.payload = []byte{0x1f, 0x90, 0x1f, 0x91, 0, 16, 0xab, 0xcd, 1, 2, 3, 4, 5, 6, 7, 8}
			if change != nil {
				change(&h)
			}
			b := h.packet()
			if spoil != nil {
				b = spoil(b)
			}
			return sample{ip: b}
		}
	}
	spoil := func(name, why string, at int, with ...byte) {
		faults = append(faults, fault{name, packet(nil, func(b []byte) []byte { return lab.Edit(b, at, with...) }), why})
	}
	cut := func(name string, n int) {
		faults = append(faults, fault{name, packet(nil, func(b []byte) []byte { return b[:n] }), ""})
	}
	change := func(name, why string, change func(h *header6)) {
		faults = append(faults, fault{name, packet(change, nil), why})
	}
	from := func(source, why string) {
		change("IPv6: source "+source, why, func(h *header6) { h.src = lab.Addr(source) })
	}
	chain := func(name, why string, next byte, extensions ...extension) {
		change("IPv6: "+name, why, func(h *header6) { h.extensions, h.next = extensions, next })
	}
	faults = append(faults, fault{"IPv6: nothing is wrong", packet(nil, nil), ""})
	spoil("IPv6: payload length beyond the bytes", "", 4, 0, 17)
	spoil("IPv6: payload length 65535", "", 4, 255, 255)
	spoil("IPv6: bytes behind the payload length", "", 4, 0, 12)
	cut("IPv6: 39 bytes", 39)
	cut("IPv6: cut by one byte", 55)
	for _, source := range []string{"::", "::1", "ff02::1", "ff0e::1", "::ffff:10.0.1.5"} {
		from(source, "")
	}
	for _, destination := range []string{"::", "::1", "ff02::1", "ff0e::1", "fe80::99", "2001:db8::1", "::ffff:10.71.9.9"} {
		change("IPv6: destination "+destination, "", func(h *header6) { h.dst = lab.Addr(destination) })
	}
	if fromNode {
		from("fd00:80::12", otherNode)
		from("fd00:10:0:2::5", "")
	}
	for _, source := range []string{"fd00:71::9", "fe80::5", "2001:db8::1"} {
		from(source, "")
	}
	padding := func() extension { return extension{60, []byte{0, 0, 1, 4, 0, 0, 0, 0}} }
	chain("hop-by-hop options that do nothing", "", lab.ProtoUDP, extension{0, []byte{0, 0, 1, 4, 0, 0, 0, 0}})
	chain("hop-by-hop option that asks to be dropped", hopByHop, lab.ProtoUDP, extension{0, []byte{0, 0, 0x5e, 4, 0, 0, 0, 0}})
	chain("hop-by-hop option that is too long", hopByHop, lab.ProtoUDP, extension{0, []byte{0, 0, 0x1e, 9, 0, 0, 0, 0}})
	chain("hop-by-hop options behind others", "", lab.ProtoUDP, padding(), extension{0, []byte{0, 0, 1, 4, 0, 0, 0, 0}})
	chain("8 extension headers", "strait follows 7 extension headers, the most in RFC 8200 section 4.1", lab.ProtoUDP,
		padding(), padding(), padding(), padding(), padding(), padding(), padding(), padding())
	chain("extension header that is truncated", notSoFar, 60)
	chain("extension header longer than the packet", notSoFar, lab.ProtoUDP, extension{60, []byte{0, 9, 1, 4, 0, 0, 0, 0}})
	chain("routing header of type 0", notSoFar+" (RFC 5095)", lab.ProtoUDP, extension{43, []byte{0, 0, 0, 0, 0, 0, 0, 0}})
	chain("no next header", "", 59)
	chain("two fragment headers", notReassembled, lab.ProtoUDP, extension{44, make([]byte, 8)}, extension{44, make([]byte, 8)})
	chain("atomic fragment", "", lab.ProtoUDP, extension{44, make([]byte, 8)})
	chain("fragment that ends behind 65535", notReassembled, lab.ProtoUDP, extension{44, []byte{0, 0, 0xff, 0xf8, 0, 0, 0, 1}})
	return faults
}
