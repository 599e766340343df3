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
	gateway  = netip.MustParseAddr("10.80.0.1")
	gateway6 = netip.MustParseAddr("fd00:80::1")
)

func TestICMPErrorBytes(t *testing.T) {
	t.Parallel()
	b := udp4([]byte("?"))
	ip := parse(t, b)
	got := packet.AppendICMPError(nil, packet.TooBig, 1350, gateway, b, &ip)
	want := repair(slices.Concat([]byte{
		0x45, 0xc0, 0x00, 57, // version, header of 5 words; precedence 6; total length
		0x00, 0x00, 0x40, 0x00, // ID 0, DF
		64, 1, 0, 0, // TTL, ICMP, checksum
		10, 80, 0, 1,
		10, 0, 1, 5,
		3, 4, // destination unreachable, fragmentation needed
		0x00, 0x00, // checksum
		0x00, 0x00, 0x05, 0x46, // unused, next-hop MTU 1350
	}, b))
	binary.BigEndian.PutUint16(want[22:], ^slowSum(want[20:]))
	if !bytes.Equal(got, want) {
		t.Errorf("IPv4\n% x, want\n% x", got, want)
	}

	b = udp6([]byte("?"))
	ip = parse(t, b)
	got = packet.AppendICMPError(nil, packet.TooBig, 1350, gateway6, b, &ip)
	want = slices.Concat([]byte{
		0x6c, 0x00, 0x00, 0x00, // version, traffic class 0xc0, flow label
		0x00, 57, 58, 64, // payload length, ICMPv6, hop limit
		0xfd, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
		0xfd, 0, 0, 0x0a, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 5,
		2, 0, // packet too big
		0x00, 0x00, // checksum
		0x00, 0x00, 0x05, 0x46, // MTU 1350
	}, b)
	binary.BigEndian.PutUint16(want[42:], ^slowSum(pseudoHeader(gateway6, podA6, 58, 57), want[40:]))
	if !bytes.Equal(got, want) {
		t.Errorf("IPv6\n% x, want\n% x", got, want)
	}
}

func TestICMPErrorTypesOfBothFamilies(t *testing.T) {
	t.Parallel()
	for kind, want := range map[packet.ErrorKind]struct {
		name         string
		code4, code6 [2]byte
	}{
		packet.TimeExceeded:    {"time_exceeded", [2]byte{11, 0}, [2]byte{3, 0}},
		packet.TooBig:          {"too_big", [2]byte{3, 4}, [2]byte{2, 0}},
		packet.NetUnreachable:  {"net_unreachable", [2]byte{3, 0}, [2]byte{1, 0}},
		packet.HostUnreachable: {"host_unreachable", [2]byte{3, 1}, [2]byte{1, 3}},
		packet.Prohibited:      {"prohibited", [2]byte{3, 13}, [2]byte{1, 1}},
		packet.PortUnreachable: {"port_unreachable", [2]byte{3, 3}, [2]byte{1, 4}},
	} {
		if kind.String() != want.name {
			t.Errorf("%d is called %s, want %s", kind, kind, want.name)
		}
		for n := range 70 {
			b, b6 := udp4(counting(n*30)), udp6(counting(n*30))
			ip, ip6 := parse(t, b), parse(t, b6)
			e := packet.AppendICMPError(nil, kind, 1400, gateway, b, &ip)
			e6 := packet.AppendICMPError(nil, kind, 1400, gateway6, b6, &ip6)
			checkError(t, e, gateway, podA, want.code4)
			checkError(t, e6, gateway6, podA6, want.code6)
			if kind != packet.TooBig && (word(e, 24)|word(e, 26)|word(e6, 44)|word(e6, 46)) != 0 {
				t.Fatalf("%v has something in its unused field", kind)
			}
		}
	}
}

// checkError verifies an error as its receiver does.
func checkError(t *testing.T, e []byte, from, to netip.Addr, typeAndCode [2]byte) {
	t.Helper()
	ip := parse(t, e)
	if ip.Src != from || ip.Dst != to || ip.TTL != 64 || int(ip.Len) != len(e) || ip.Fragment != packet.Unfragmented {
		t.Fatalf("%+v", ip)
	}
	u := ip.Upper(e)
	if [2]byte(u) != typeAndCode {
		t.Fatalf("type and code %v, want %v", u[:2], typeAndCode)
	}
	if from.Is4() && slowSum(u) != 0xffff || from.Is6() && !upperOK(e, ip) || !packet.ICMPChecksumOK(e, &ip) {
		t.Fatalf("checksum is wrong: % x", e)
	}
	if !packet.IsICMPError(e, &ip) {
		t.Fatal("IsICMPError does not know it")
	}
}

func TestI5_ErrorsQuoteAsMuchAsFits(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 519, 520, 521, 1183, 1184, 1185, 1400, 9000} {
		b, b6 := udp4(counting(n)), udp6(counting(n))
		padded := append(slices.Clone(b), 0xee, 0xee, 0xee)
		ip, ip6 := parse(t, padded), parse(t, b6)
		e := packet.AppendICMPError(nil, packet.TimeExceeded, 0, gateway, padded, &ip)
		e6 := packet.AppendICMPError(nil, packet.TimeExceeded, 0, gateway6, b6, &ip6)
		if want := b[:min(len(b), 576-28)]; !bytes.Equal(e[28:], want) {
			t.Errorf("%d bytes: quote of %d, want %d", n, len(e)-28, len(want))
		}
		if want := b6[:min(len(b6), 1280-48)]; !bytes.Equal(e6[48:], want) {
			t.Errorf("%d bytes of IPv6: quote of %d, want %d", n, len(e6)-48, len(want))
		}
	}
}

func TestI6_RFC1191_RFC8201_TooBigNeverAnnouncesLessThanEveryLinkCarries(t *testing.T) {
	t.Parallel()
	b, b6 := udp4(nil), udp6(nil)
	ip, ip6 := parse(t, b), parse(t, b6)
	for _, c := range []struct{ mtu, want4, want6 int }{
		{-1, 68, 1280}, {0, 68, 1280}, {68, 68, 1280}, {1279, 1279, 1280}, {1500, 1500, 1500}, {65535, 65535, 65535}, {70000, 65535, 70000},
	} {
		e := packet.AppendICMPError(nil, packet.TooBig, c.mtu, gateway, b, &ip)
		e6 := packet.AppendICMPError(nil, packet.TooBig, c.mtu, gateway6, b6, &ip6)
		if got := word(e, 26); got != c.want4 || word(e, 24) != 0 {
			t.Errorf("mtu %d: IPv4 announces %d, want %d", c.mtu, got, c.want4)
		}
		if got := int(binary.BigEndian.Uint32(e6[44:])); got != c.want6 {
			t.Errorf("mtu %d: IPv6 announces %d, want %d", c.mtu, got, c.want6)
		}
	}
}

func TestICMPErrorIsAppended(t *testing.T) {
	t.Parallel()
	b := udp4(counting(2000))
	ip := parse(t, b)
	dst := make([]byte, 3, 3+packet.MaxICMPErrorLen)
	copy(dst, "abc")
	got := packet.AppendICMPError(dst, packet.Prohibited, 0, gateway, b, &ip)
	if &got[0] != &dst[0] || string(got[:3]) != "abc" {
		t.Error("not in the memory given")
	}
	checkError(t, got[3:], gateway, podA, [2]byte{3, 13})
}

func TestI3_NoErrorsAboutErrors(t *testing.T) {
	t.Parallel()
	queries4 := []int{0, 8, 9, 10, 13, 14, 15, 16, 17, 18, 42, 43}
	for kind := range 256 {
		b := ipv4{proto: packet.ProtoICMP}.packet(icmpMessage(uint8(kind), 0, 0, counting(40)))
		ip := parse(t, b)
		if got, want := packet.MayAnswer(b, &ip), slices.Contains(queries4, kind); got != want {
			t.Errorf("ICMP type %d: %v, want %v", kind, got, want)
		}
		if got, want := packet.IsICMPError(b, &ip), slices.Contains([]int{3, 4, 5, 11, 12}, kind); got != want {
			t.Errorf("ICMP type %d: error %v, want %v", kind, got, want)
		}
		b = ipv6{next: packet.ProtoICMPv6}.packet(icmpv6Message(podA6, podB6, uint8(kind), 0, 0, counting(48)))
		ip = parse(t, b)
		if got, want := packet.MayAnswer(b, &ip), kind >= 128 && kind != 137; got != want {
			t.Errorf("ICMPv6 type %d: %v, want %v", kind, got, want)
		}
		if got, want := packet.IsICMPError(b, &ip), kind < 128; got != want {
			t.Errorf("ICMPv6 type %d: error %v, want %v", kind, got, want)
		}
	}
	for name, b := range map[string][]byte{
		"ICMP without a type":             ipv4{proto: packet.ProtoICMP}.packet(nil),
		"ICMPv6 without a type":           ipv6{next: packet.ProtoICMPv6}.packet(nil),
		"first fragment of an ICMP error": ipv4{proto: packet.ProtoICMP, fragment: mf}.packet(icmpMessage(3, 1, 0, counting(40))),
	} {
		ip := parse(t, b)
		if packet.MayAnswer(b, &ip) {
			t.Errorf("%s may be answered", name)
		}
	}
}

func TestI3_OtherProtocolsAreNoErrors(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"UDP":                      udp4(nil),
		"TCP over IPv6":            tcp6(tcp{}, nil),
		"ICMP over IPv6":           ipv6{next: packet.ProtoICMP}.packet(icmpMessage(3, 0, 0, counting(40))),
		"ICMPv6 over IPv4":         ipv4{proto: packet.ProtoICMPv6}.packet(icmpMessage(1, 0, 0, counting(40))),
		"an ICMP without a type":   ipv4{proto: packet.ProtoICMP}.packet(nil),
		"a later fragment of ICMP": ipv4{proto: packet.ProtoICMP, fragment: 1}.packet(icmpMessage(3, 0, 0, counting(40))),
	} {
		ip := parse(t, b)
		if packet.IsICMPError(b, &ip) {
			t.Errorf("%s is an error", name)
		}
	}
	// Their first byte is a port, not a type.
	for port := range 256 {
		for _, b := range [][]byte{ipv4{proto: 17}.packet([]byte{byte(port), 0, 0, 53, 0, 8, 0, 0}), ipv6{next: 17}.packet([]byte{byte(port), 0, 0, 53, 0, 8, 0, 0})} {
			ip := parse(t, b)
			if !packet.MayAnswer(b, &ip) || packet.IsICMPError(b, &ip) {
				t.Errorf("UDP from port %d is taken for ICMP", port<<8)
			}
		}
	}
}

func TestI3_ErrorsOnlyAboutWhatOneHostSentToOneHost(t *testing.T) {
	t.Parallel()
	addr := netip.MustParseAddr
	cases := []struct {
		src, dst string
		want     bool
	}{
		{"10.0.1.5", "10.71.2.9", true},
		{"0.0.0.0", "10.71.2.9", false},
		{"0.1.2.3", "10.71.2.9", false},
		{"127.0.0.1", "10.71.2.9", false},
		{"224.0.0.1", "10.71.2.9", false},
		{"240.0.0.1", "10.71.2.9", false},
		{"255.255.255.255", "10.71.2.9", false},
		{"10.0.1.5", "224.0.0.5", false},
		{"10.0.1.5", "239.255.255.255", false},
		{"10.0.1.5", "255.255.255.255", false},
		{"223.255.255.254", "10.71.2.9", true},
		{"fd00:a::5", "fd00:b::9", true},
		{"::", "fd00:b::9", false},
		{"::1", "fd00:b::9", false},
		{"ff02::1", "fd00:b::9", false},
		{"fd00:a::5", "ff0e::1", false},
	}
	for _, c := range cases {
		var b []byte
		if src := addr(c.src); src.Is4() {
			b = ipv4{src: src, dst: addr(c.dst), proto: 17}.packet(counting(8))
		} else {
			b = ipv6{src: src, dst: addr(c.dst), next: 17}.packet(counting(8))
		}
		ip := parse(t, b)
		if got := packet.MayAnswer(b, &ip); got != c.want {
			t.Errorf("%s to %s: %v, want %v", c.src, c.dst, got, c.want)
		}
	}
}

func TestI3_NoErrorsAboutLaterFragments(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		b    []byte
		want bool
	}{
		{"first", ipv4{proto: 17, fragment: mf}.packet(counting(16)), true},
		{"later", ipv4{proto: 17, fragment: mf | 2}.packet(counting(16)), false},
		{"first of IPv6", ipv6{next: 44, extensions: fragmentHeader(17, 0, true, 1)}.packet(counting(16)), true},
		{"later of IPv6", ipv6{next: 44, extensions: fragmentHeader(17, 16, false, 1)}.packet(counting(16)), false},
	} {
		ip := parse(t, c.b)
		if got := packet.MayAnswer(c.b, &ip); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestRFC5508REQ3_ChecksumsOfErrorsAreVerifiedForPrefixMapsAndMasquerade(t *testing.T) {
	t.Parallel()
	for n := range 60 {
		for _, b := range [][]byte{ping4(counting(n)), ping6(counting(n))} {
			ip := parse(t, b)
			if !packet.ICMPChecksumOK(b, &ip) {
				t.Fatalf("%d bytes: right checksum refused", n)
			}
			for at := int(ip.Header); at < len(b); at++ {
				b[at] ^= 0x10
				if packet.ICMPChecksumOK(b, &ip) {
					t.Fatalf("%d bytes: damage at %d not seen", n, at)
				}
				b[at] ^= 0x10
			}
		}
	}
	// ICMPv6 covers the addresses, ICMP does not.
	b := ipv6{next: packet.ProtoICMPv6}.packet(icmpMessage(128, 0, 1, nil))
	ip := parse(t, b)
	if packet.ICMPChecksumOK(b, &ip) {
		t.Error("ICMPv6 without its pseudo-header passes")
	}
	for name, c := range map[string]struct {
		b    []byte
		want bool
	}{
		"fragment":          {ipv4{proto: 1, fragment: mf}.packet(counting(16)), true},
		"UDP":               {udp4(nil), false},
		"ICMPv6 over IPv4":  {ipv4{proto: 58}.packet(counting(16)), false},
		"ICMP over IPv6":    {ipv6{next: 1}.packet(icmpMessage(8, 0, 1, nil)), false},
		"no message at all": {ipv4{proto: 1}.packet(nil), false},
	} {
		ip := parse(t, c.b)
		if got := packet.ICMPChecksumOK(c.b, &ip); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
