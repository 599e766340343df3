package packet_test

import (
	"bytes"
	"net/netip"
	"slices"
	"testing"

	"strait.dev/strait/packet"
)

// quoting is an ICMP error about quote, sent back to podA.
func quoting(quote []byte) []byte {
	if len(quote) > 0 && quote[0]>>4 == 6 {
		return ipv6{next: packet.ProtoICMPv6, src: podB6, dst: podA6}.packet(icmpv6Message(podB6, podA6, 1, 4, 0, quote))
	}
	return ipv4{proto: packet.ProtoICMP, src: podB, dst: podA}.packet(icmpMessage(3, 3, 0, quote))
}

func TestQuoteIsThePacketAndAliasesIt(t *testing.T) {
	t.Parallel()
	for _, original := range everyKind() {
		original := original[:min(len(original), 1232)]
		e := quoting(original)
		ip := parse(t, e)
		var q packet.IP
		quote, ok := packet.ParseQuote(e, &ip, &q)
		if !ok || !bytes.Equal(quote, original) || &quote[0] != &e[len(e)-len(original)] {
			t.Fatalf("quote of % x: %v % x", original, ok, quote)
		}
		if int(q.Len) != len(quote) {
			t.Fatalf("Len %d of %d bytes", q.Len, len(quote))
		}
		// Where the whole packet is there, a quote is read as Parse reads it.
		var want packet.IP
		if packet.Parse(original, &want) == packet.FaultNone && q != want {
			t.Fatalf("quote %+v, packet %+v", q, want)
		}
	}
}

func TestQuoteMayEndAnywhereBehindItsHeader(t *testing.T) {
	t.Parallel()
	for _, original := range everyKind() {
		whole := parse(t, original)
		least := 40
		if whole.Version == 4 {
			least = int(whole.Header)
		}
		for n := range min(len(original), 200) {
			e := quoting(original[:n])
			if n == 0 {
				continue // quoting cannot know the version; see below
			}
			ip := parse(t, e)
			var q packet.IP
			quote, ok := packet.ParseQuote(e, &ip, &q)
			if ok != (n >= least) {
				t.Fatalf("%d of %d bytes: ok %v", n, len(original), ok)
			}
			if !ok {
				continue
			}
			if len(quote) != n || int(q.Len) != n || q.Header > q.Len || q.Src != whole.Src || q.Dst != whole.Dst || q.TTL != whole.TTL || q.DF != whole.DF {
				t.Fatalf("%d bytes: %+v of %+v", n, q, whole)
			}
			if int(whole.Header) <= n && (q.Header != whole.Header || q.Proto != whole.Proto || q.Fragment != whole.Fragment) {
				t.Fatalf("%d bytes: %+v of %+v", n, q, whole)
			}
		}
	}
}

// An extension header that is cut is named instead of the upper layer, so that
// nothing is mistaken for a TCP or UDP header.
func TestQuoteWithCutExtensionHeadersHasNoUpperLayer(t *testing.T) {
	t.Parallel()
	original := ipv6{next: 0, extensions: slices.Concat(extension(60), extension(packet.ProtoTCP))}.
		packet(tcp{}.message(podA6, podB6, nil))
	for _, c := range []struct{ n, proto, header int }{
		{40, 0, 40}, {47, 0, 40}, {48, 60, 48}, {55, 60, 48}, {56, packet.ProtoTCP, 56}, {60, packet.ProtoTCP, 56}, {64, packet.ProtoTCP, 56},
	} {
		e := quoting(original[:c.n])
		ip := parse(t, e)
		var q packet.IP
		if _, ok := packet.ParseQuote(e, &ip, &q); !ok || int(q.Proto) != c.proto || int(q.Header) != c.header {
			t.Errorf("%d bytes: protocol %d at %d, want %d at %d", c.n, q.Proto, q.Header, c.proto, c.header)
		}
	}
}

func TestQuoteFindsTheUpperLayerBehindLongExtensionHeaders(t *testing.T) {
	t.Parallel()
	auth := []byte{60, 4, 23: 0}                        // 24 bytes, RFC 4302 counts in words
	options := []byte{packet.ProtoUDP, 1, 1, 12, 15: 0} // 16 bytes
	original := ipv6{next: 51, extensions: slices.Concat(auth, options)}.packet(counting(8))
	for _, c := range []struct{ n, proto, header int }{
		{48, 51, 40}, {63, 51, 40}, {64, 60, 64}, {72, 60, 64}, {79, 60, 64}, {80, packet.ProtoUDP, 80}, {88, packet.ProtoUDP, 80},
	} {
		e := quoting(original[:c.n])
		ip := parse(t, e)
		var q packet.IP
		if _, ok := packet.ParseQuote(e, &ip, &q); !ok || int(q.Proto) != c.proto || int(q.Header) != c.header {
			t.Errorf("%d bytes: protocol %d at %d, want %d at %d", c.n, q.Proto, q.Header, c.proto, c.header)
		}
	}
}

func TestQuotedFragments(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		b    []byte
		want packet.Fragment
	}{
		"first, cut":          {ipv4{proto: 17, fragment: mf}.packet(counting(1480))[:28], packet.FirstFragment},
		"later":               {ipv4{proto: 17, fragment: mf | 185}.packet(counting(1480))[:28], packet.LaterFragment},
		"IPv6 first, cut":     {ipv6{next: 44, extensions: fragmentHeader(17, 0, true, 1)}.packet(counting(1232))[:60], packet.FirstFragment},
		"IPv6 later, cut":     {ipv6{next: 44, extensions: fragmentHeader(17, 1232, true, 1)}.packet(counting(1232))[:60], packet.LaterFragment},
		"IPv6 later, no more": {ipv6{next: 44, extensions: fragmentHeader(17, 1232, false, 1)}.packet(counting(9))[:48], packet.LaterFragment},
	} {
		e := quoting(c.b)
		ip := parse(t, e)
		var q packet.IP
		quote, ok := packet.ParseQuote(e, &ip, &q)
		if !ok || q.Fragment != c.want || q.Proto != 17 {
			t.Errorf("%s: %v %+v", name, ok, q)
		}
		if c.want == packet.LaterFragment && q.Upper(quote) != nil {
			t.Errorf("%s: has an upper layer", name)
		}
	}
}

func TestQuoteOfAPacketWithoutPayload(t *testing.T) {
	t.Parallel()
	for _, original := range [][]byte{ipv4{proto: 50}.packet(nil), ipv6{next: packet.ProtoNoNext}.packet(nil)} {
		e := quoting(original)
		ip := parse(t, e)
		var q packet.IP
		if quote, ok := packet.ParseQuote(e, &ip, &q); !ok || !bytes.Equal(quote, original) || q.Header != q.Len {
			t.Errorf("%v %+v", ok, q)
		}
	}
}

// RFC 4884 section 5.3: a quote may be padded to 128 bytes, with extensions behind.
func TestQuoteEndsWithThePacketNotWithTheError(t *testing.T) {
	t.Parallel()
	original := udp4(counting(10))
	for _, e := range [][]byte{
		quoting(append(slices.Clone(original), make([]byte, 128)...)),
		append(quoting(original), 0xee, 0xee),
	} {
		ip := parse(t, e)
		var q packet.IP
		if quote, ok := packet.ParseQuote(e, &ip, &q); !ok || !bytes.Equal(quote, original) {
			t.Errorf("%v % x", ok, quote)
		}
	}
}

// Routers change the TTL before they quote; not all update the checksum.
func TestQuoteWithAWrongHeaderChecksumIsFine(t *testing.T) {
	t.Parallel()
	original := udp4(counting(10))
	original[8] = 0
	e := quoting(original)
	ip := parse(t, e)
	var q packet.IP
	if _, ok := packet.ParseQuote(e, &ip, &q); !ok || q.TTL != 0 {
		t.Errorf("%v %+v", ok, q)
	}
}

func TestQuoteOfSomethingElseIsRefused(t *testing.T) {
	t.Parallel()
	edit := func(b []byte, at int, v byte) []byte { b[at] = v; return b }
	v4 := ipv4{proto: packet.ProtoICMP}
	v6 := ipv6{next: packet.ProtoICMPv6}
	for name, e := range map[string][]byte{
		"empty message":             v4.packet(nil),
		"no quote":                  v4.packet(icmpMessage(3, 0, 0, nil)),
		"19 bytes":                  v4.packet(icmpMessage(3, 0, 0, udp4(nil)[:19])),
		"IPv6 in ICMP":              v4.packet(icmpMessage(3, 0, 0, udp6(nil))),
		"IPv4 in ICMPv6":            v6.packet(icmpMessage(1, 0, 0, udp4(counting(40)))),
		"39 bytes of IPv6":          v6.packet(icmpMessage(1, 0, 0, udp6(nil)[:39])),
		"version 0":                 v4.packet(icmpMessage(3, 0, 0, edit(udp4(nil), 0, 0x05))),
		"header length 16":          v4.packet(icmpMessage(3, 0, 0, edit(udp4(nil), 0, 0x44))),
		"options cut":               v4.packet(icmpMessage(3, 0, 0, ipv4{options: []byte{1, 1, 1, 1}}.packet(nil)[:22])),
		"total length below header": v4.packet(icmpMessage(3, 0, 0, edit(udp4(nil), 3, 19))),
		"IPv4-mapped source":        v6.packet(icmpMessage(1, 0, 0, ipv6{src: netip.AddrFrom16(podA.As16())}.packet(counting(8)))),
	} {
		ip := parse(t, e)
		var q packet.IP
		if quote, ok := packet.ParseQuote(e, &ip, &q); ok {
			t.Errorf("%s: % x", name, quote)
		}
	}
}

func FuzzParseQuote(f *testing.F) {
	for _, b := range everyKind() {
		f.Add(quoting(b[:min(len(b), 548)]))
		f.Add(quoting(b[:min(len(b), 41)]))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > packet.MaxLen {
			return
		}
		b = repair(b)
		var ip, q packet.IP
		if packet.Parse(b, &ip) != packet.FaultNone || !packet.IsICMPError(b, &ip) {
			return
		}
		quote, ok := packet.ParseQuote(b, &ip, &q)
		if !ok {
			return
		}
		switch {
		case len(quote) != int(q.Len), q.Header > q.Len, q.Version != ip.Version, q.Src.Is4() != ip.Src.Is4():
			t.Fatalf("%d bytes, %+v", len(quote), q)
		case &quote[0] != &b[int(ip.Header)+packet.ICMPHeaderLen], len(quote) > len(b)-int(ip.Header)-packet.ICMPHeaderLen:
			t.Fatal("the quote does not lie within the error")
		}
		// A packet that is there as a whole is read as Parse reads it.
		var want packet.IP
		if packet.Parse(quote, &want) == packet.FaultNone && int(want.Len) == len(quote) && q != want {
			t.Fatalf("quote %+v, packet %+v: % x", q, want, quote)
		}
		// What NAT does with it stays within it.
		if q.Fragment != packet.LaterFragment {
			packet.UpdateUpper(quote[q.Header:], q.Proto, 0x1234)
		}
	})
}
