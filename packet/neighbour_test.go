package packet_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"strait.dev/strait/packet"
)

var (
	node6         = netip.MustParseAddr("fd00:80::b")
	node6MAC      = packet.MAC{0x02, 0, 0, 0, 0, 0x0b}
	solicited6    = netip.MustParseAddr("ff02::1:ff00:1") // of gateway6
	solicited6MAC = packet.MAC{0x33, 0x33, 0xff, 0, 0, 1}
	unspecified6  = netip.IPv6Unspecified()
)

// solicitation is who-has gateway6; options follow the target.
func solicitation(src, dst netip.Addr, options []byte) []byte {
	return solicitationWith(ipv6{src: src, dst: dst, hopLimit: 255, next: packet.ProtoICMPv6}, options)
}

func solicitationWith(h ipv6, options []byte) []byte {
	target := gateway6.As16()
	m := icmpv6Message(h.src, h.dst, 135, 0, 0, append(target[:], options...))
	return ethernet(solicited6MAC, node6MAC, packet.EtherTypeIPv6, h.packet(m))
}

var linkOption = []byte{1, 1, 0x02, 0, 0, 0, 0, 0x0c} // another MAC than the frame's

func TestNeighbourSolicitationIsAnswered(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		frame []byte
		mac   packet.MAC
	}{
		"resolution":          {solicitation(node6, solicited6, linkOption), packet.MAC(linkOption[2:])},
		"reachability":        {solicitation(node6, gateway6, nil), node6MAC},
		"an unknown option":   {solicitation(node6, solicited6, append([]byte{14, 1, 1, 2, 3, 4, 5, 6}, linkOption...)), packet.MAC(linkOption[2:])},
		"a long link option":  {solicitation(node6, solicited6, append([]byte{1, 2}, make([]byte, 14)...)), node6MAC},
		"padding of the link": {append(solicitation(node6, gateway6, nil), 0xee), node6MAC},
	} {
		s, ok := packet.ParseSolicitation(c.frame)
		want := packet.Solicitation{SourceMAC: c.mac, Source: node6, Target: gateway6}
		if !ok || s != want {
			t.Errorf("%s: %+v %v, want %+v", name, s, ok, want)
		}
	}

	s := packet.Solicitation{SourceMAC: node6MAC, Source: node6, Target: gateway6}
	dst := bytes.Repeat([]byte{0xa5}, 100)
	n := packet.PutAdvertisement(dst, s, gatewayMAC)
	want := []byte{
		0x02, 0, 0, 0, 0, 0x0b, // to the sender of the request
		0x0a, 0x58, 10, 80, 0, 1,
		0x86, 0xdd,
		0x60, 0, 0, 0, 0, 32, 58, 255, // IPv6, 32 bytes, ICMPv6, hop limit 255
		0xfd, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
		0xfd, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0b,
		136, 0, 0, 0, // neighbour advertisement
		0xe0, 0, 0, 0, // router, solicited, override
		0xfd, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, // target
		2, 1, 0x0a, 0x58, 10, 80, 0, 1, // target link-layer address
	}
	binary.BigEndian.PutUint16(want[56:], ^slowSum(pseudoHeader(gateway6, node6, 58, 32), want[54:]))
	if n != packet.AdvertisementLen || !bytes.Equal(dst[:n], want) {
		t.Errorf("% x, want\n% x", dst[:n], want)
	}
	if !bytes.Equal(dst[n:], bytes.Repeat([]byte{0xa5}, 100-n)) {
		t.Error("written behind its end")
	}
}

// RFC 4862 section 5.4: the sender has no address yet, so all nodes get the answer.
func TestDuplicateAddressDetectionIsAnsweredToAllNodes(t *testing.T) {
	t.Parallel()
	s, ok := packet.ParseSolicitation(solicitation(unspecified6, solicited6, nil))
	if !ok || s != (packet.Solicitation{SourceMAC: node6MAC, Source: unspecified6, Target: gateway6}) {
		t.Fatalf("%+v %v", s, ok)
	}
	dst := make([]byte, packet.AdvertisementLen)
	packet.PutAdvertisement(dst, s, gatewayMAC)
	ip := parse(t, dst[14:])
	if [6]byte(dst) != [6]byte{0x33, 0x33, 0, 0, 0, 1} || ip.Dst != netip.MustParseAddr("ff02::1") || dst[58] != 0xa0 || !upperOK(dst[14:], ip) {
		t.Errorf("% x", dst)
	}
}

func TestNeighbourSolicitationIsValidated(t *testing.T) {
	t.Parallel()
	good := ipv6{src: node6, dst: solicited6, hopLimit: 255, next: packet.ProtoICMPv6}
	with := func(change func(h *ipv6)) []byte { h := good; change(&h); return solicitationWith(h, linkOption) }
	message := func(kind, code uint8, body []byte) []byte {
		return ethernet(solicited6MAC, node6MAC, packet.EtherTypeIPv6, good.packet(icmpv6Message(good.src, good.dst, kind, code, 0, body)))
	}
	target, group, mapped := gateway6.As16(), netip.MustParseAddr("ff02::5").As16(), gateway.As16()
	edit := func(b []byte, at int, v byte) []byte { b[at] = v; return b }

	for name, frame := range map[string][]byte{
		"forwarded by a router": with(func(h *ipv6) { h.hopLimit = 254 }),
		"wrong checksum":        edit(solicitation(node6, solicited6, linkOption), 57, 0x5a),
		"code 1":                message(135, 1, target[:]),
		"an advertisement":      message(136, 0, target[:]),
		"a target cut short":    message(135, 0, target[:15]),
		"a multicast target":    message(135, 0, group[:]),
		// Found by FuzzNeighbour: the answer would not be a valid packet.
		"an IPv4-mapped target":        message(135, 0, mapped[:]),
		"a multicast source":           with(func(h *ipv6) { h.src = netip.MustParseAddr("ff02::5") }),
		"another EtherType":            edit(solicitation(node6, solicited6, nil), 12, 0x08),
		"a group's MAC in the option":  solicitation(node6, solicited6, []byte{1, 1, 0x33, 0x33, 0, 0, 0, 1}),
		"no MAC in the option":         solicitation(node6, solicited6, []byte{1, 1, 0, 0, 0, 0, 0, 0}),
		"a group's MAC in the frame":   edit(solicitation(node6, gateway6, nil), 6, 0x33),
		"an option of length 0":        solicitation(node6, solicited6, []byte{1, 0, 0, 0, 0, 0, 0, 0}),
		"an option beyond the end":     solicitation(node6, solicited6, []byte{1, 2, 0, 0, 0, 0, 0, 0}),
		"half an option":               solicitation(node6, solicited6, []byte{1}),
		"a probe with a link option":   solicitation(unspecified6, solicited6, linkOption),
		"a probe to the address":       solicitation(unspecified6, gateway6, nil),
		"a probe to all nodes":         solicitation(unspecified6, netip.MustParseAddr("ff02::1"), nil),
		"a probe of another's group":   solicitation(unspecified6, netip.MustParseAddr("ff02::1:ff00:2"), nil),
		"IPv4 under the IPv6 type":     ethernet(gatewayMAC, nodeMAC, packet.EtherTypeIPv6, udp4(counting(40))),
		"UDP":                          ethernet(gatewayMAC, nodeMAC, packet.EtherTypeIPv6, udp6(counting(40))),
		"an atomic fragment, RFC 6980": fragmented(good, target[:]),
	} {
		if s, ok := packet.ParseSolicitation(frame); ok {
			t.Errorf("%s: %+v", name, s)
		}
	}
	whole := solicitation(node6, solicited6, linkOption)
	for n := range whole {
		if _, ok := packet.ParseSolicitation(whole[:n]); ok {
			t.Errorf("%d bytes are a solicitation", n)
		}
	}
}

func fragmented(h ipv6, target []byte) []byte {
	h.next, h.extensions = 44, fragmentHeader(packet.ProtoICMPv6, 0, false, 1)
	return ethernet(solicited6MAC, node6MAC, packet.EtherTypeIPv6, h.packet(icmpv6Message(h.src, h.dst, 135, 0, 0, target)))
}

func FuzzNeighbour(f *testing.F) {
	f.Add(solicitation(node6, solicited6, linkOption))
	f.Add(solicitation(node6, gateway6, nil))
	f.Add(solicitation(unspecified6, solicited6, nil))
	f.Add(solicitation(node6, solicited6, append([]byte{14, 1, 1, 2, 3, 4, 5, 6}, linkOption...)))
	f.Fuzz(func(t *testing.T, frame []byte) {
		frame = fixSolicitationChecksum(frame)
		before := slices.Clone(frame)
		s, ok := packet.ParseSolicitation(frame)
		if !bytes.Equal(frame, before) {
			t.Fatal("ParseSolicitation edits")
		}
		if !ok {
			return
		}
		memory := make([]byte, packet.AdvertisementLen+8)
		n := packet.PutAdvertisement(memory[:packet.AdvertisementLen], s, gatewayMAC)
		if n != packet.AdvertisementLen || !bytes.Equal(memory[n:], make([]byte, 8)) {
			t.Fatalf("wrote %d bytes: % x", n, memory)
		}
		ip := parse(t, memory[14:n])
		if ip.Src != s.Target || ip.TTL != 255 || !upperOK(memory[14:n], ip) {
			t.Fatalf("advertisement % x", memory[:n])
		}
	})
}

// fixSolicitationChecksum gives a damaged frame the checksum it should have, where it
// has the plain shape.
func fixSolicitationChecksum(frame []byte) []byte {
	if len(frame) < 14+40+8 {
		return frame
	}
	frame = slices.Clone(frame)
	b := frame[14:]
	src, dst := netip.AddrFrom16([16]byte(b[8:24])), netip.AddrFrom16([16]byte(b[24:40]))
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-40))
	b[42], b[43] = 0, 0
	binary.BigEndian.PutUint16(b[42:], ^slowSum(pseudoHeader(src, dst, 58, len(b)-40), b[40:]))
	return frame
}
