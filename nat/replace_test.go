package nat_test

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// slowPort is where a packet has the port of its source, or of its destination,
// -1 if nowhere.
func slowPort(h packet.IP, u []byte, destination bool) int {
	switch {
	case h.Fragment == packet.LaterFragment:
	case h.Proto == 6 || h.Proto == 17:
		if destination {
			return 2
		}
		return 0
	case len(u) > 5 && h.Version == 4 && h.Proto == 1 && (u[0] == 8 && !destination || u[0] == 0 && destination),
		len(u) > 5 && h.Version == 6 && h.Proto == 58 && (u[0] == 128 && !destination || u[0] == 129 && destination):
		return 4
	}
	return -1
}

// slowReplace is what Replace has to make of an unfragmented packet with right
// checksums: written anew, everything summed up anew.
func slowReplace(b []byte, h packet.IP, to nat.Endpoint, destination bool) []byte {
	w := slices.Clone(b)
	at, size := 12, 4
	if h.Version == 6 {
		at, size = 8, 16
	}
	src, dst := h.Src, h.Dst
	if destination {
		at, dst = at+size, to.Addr
	} else {
		src = to.Addr
	}
	copy(w[at:], to.Addr.AsSlice())
	if h.Version == 4 {
		w[10], w[11] = 0, 0
		binary.BigEndian.PutUint16(w[10:], ^slowSum(w[:h.Header]))
	}
	m := w[h.Header:h.Len]
	without := h.Proto == packet.ProtoUDP && m[6] == 0 && m[7] == 0
	if p := slowPort(h, m, destination); p >= 0 {
		binary.BigEndian.PutUint16(m[p:], to.Port)
	}
	if !without {
		putChecksum(m, h.Proto, src, dst)
	}
	return w
}

// checkReplaced compares a packet with the one before, of any kind: fragments,
// wrong checksums, quotes cut short.
func checkReplaced(t testing.TB, before, after []byte, hb packet.IP, to nat.Endpoint, destination bool) {
	t.Helper()
	ha := hb
	at, size := 12, 4
	if hb.Version == 6 {
		at, size = 8, 16
	}
	if destination {
		at, ha.Dst = at+size, to.Addr
	} else {
		ha.Src = to.Addr
	}
	if got, _ := netip.AddrFromSlice(after[at : at+size]); got != to.Addr {
		t.Fatalf("address %v, want %v", got, to.Addr)
	}
	restored := slices.Clone(after)
	copy(restored[at:at+size], before[at:])
	if hb.Version == 4 {
		if was, is := excess(before[:hb.Header]), excess(after[:hb.Header]); was != is {
			t.Fatalf("IPv4 header sums to %#x too much, %#x before", is, was)
		}
		copy(restored[10:12], before[10:])
	}
	mb, ma := before[hb.Header:hb.Len], after[hb.Header:hb.Len]
	if p := slowPort(hb, mb, destination); p >= 0 && len(mb) >= p+2 {
		if got := binary.BigEndian.Uint16(ma[p:]); got != to.Port {
			t.Fatalf("port %d, want %d", got, to.Port)
		}
		copy(restored[int(hb.Header)+p:], mb[p:p+2])
	}
	c := slowChecksumAt(hb.Proto)
	if hb.Proto == packet.ProtoICMP && slowPort(hb, mb, destination) >= 0 {
		c = 2
	}
	if c >= 0 && hb.Fragment != packet.LaterFragment && len(mb) >= c+2 {
		pb, pa := pseudoHeader(hb.Proto, hb.Src, hb.Dst, 0), pseudoHeader(ha.Proto, ha.Src, ha.Dst, 0)
		if hb.Proto == packet.ProtoICMP {
			pb, pa = nil, nil
		}
		was, is := binary.BigEndian.Uint16(mb[c:]), binary.BigEndian.Uint16(ma[c:])
		switch {
		case hb.Proto == packet.ProtoUDP && was == 0:
			if is != 0 {
				t.Fatalf("UDP without checksum got %#04x", is)
			}
		case excess(pb, mb) != excess(pa, ma):
			t.Fatalf("protocol %d checksum %#04x became %#04x: sums to %#x too much, %#x before", hb.Proto, was, is, excess(pa, ma), excess(pb, mb))
		case neverZero(hb.Proto) && was != 0 && is == 0:
			t.Fatalf("protocol %d checksum %#04x became zero", hb.Proto, was)
		}
		copy(restored[int(hb.Header)+c:], mb[c:c+2])
	}
	if !slices.Equal(restored, before) {
		t.Fatalf("more changed than address, port and checksums:\n% x\n% x", before, after)
	}
}

// replace is one of ReplaceSource and ReplaceDestination.
func replace(b []byte, h *packet.IP, to nat.Endpoint, destination bool) bool {
	if destination {
		return nat.ReplaceDestination(b, h, to)
	}
	return nat.ReplaceSource(b, h, to)
}

func TestRFC1624_ReplacingEqualsTheTwin(t *testing.T) {
	t.Parallel()
	r := random()
	for _, f := range families {
		request, reply := echoTypes(f)
		for n := range 20000 {
			var b []byte
			switch proto := protocols[n%len(protocols)]; {
			case proto == packet.ProtoICMP || proto == packet.ProtoICMPv6:
				b = echo(f, []byte{request, reply, 3}[r.IntN(3)], uint16(r.Uint32()))
			default:
				b = whole(proto, f.inside, f.remote, randomBytes(r, r.IntN(60)))
			}
			if n%7 == 0 {
				b = whole(packet.ProtoUDP, f.inside, f.remote, []byte("none"))
				h := parse(t, b)
				copy(b[int(h.Header)+6:], []byte{0, 0})
			}
			h := parse(t, b)
			to := end(randomAddr(r, f.inside.Is4()), uint16(r.Uint32())*uint16(r.IntN(5)))
			destination := r.IntN(2) == 1
			want := slowReplace(b, h, to, destination)
			if !replace(b, &h, to, destination) {
				t.Fatalf("refused % x", b)
			}
			if !sameButForZero(b, want, h) {
				t.Fatalf("%s, to %v:\n% x\n% x", f.name, to, b, want)
			}
			if h != parse(t, b) {
				t.Fatalf("the header is %+v, not %+v", parse(t, b), h)
			}
		}
	}
}

// sameButForZero compares packets, where an ICMP checksum may be 0 or 0xffff for
// the same sum.
func sameButForZero(a, b []byte, h packet.IP) bool {
	if h.Proto != packet.ProtoICMP && h.Proto != packet.ProtoICMPv6 {
		return slices.Equal(a, b)
	}
	c := int(h.Header) + 2
	x, y := binary.BigEndian.Uint16(a[c:]), binary.BigEndian.Uint16(b[c:])
	return slices.Equal(a[:c], b[:c]) && slices.Equal(a[c+2:], b[c+2:]) && x%0xffff == y%0xffff
}

func TestAPacketCutShortIsNotReplacedHalf(t *testing.T) {
	t.Parallel()
	for _, f := range families {
		request, _ := echoTypes(f)
		for proto, message := range map[uint8][]byte{
			packet.ProtoTCP: message(packet.ProtoTCP, f.inside, f.remote, nil)[:17],
			packet.ProtoUDP: message(packet.ProtoUDP, f.inside, f.remote, nil)[:7],
			f.icmp:          {request, 0, 0, 0, 1},
		} {
			for size := range message {
				b := ip{src: f.inside, dst: f.remote, proto: proto}.packet(message[:size])
				before, h := slices.Clone(b), parse(t, b)
				for _, destination := range []bool{false, true} {
					if replace(b, &h, end(f.external, 4000), destination) || !slices.Equal(b, before) || h != parse(t, b) {
						t.Errorf("protocol %d with %d bytes was replaced", proto, size)
					}
				}
			}
		}
	}
}

func TestRFC5508REQ4_REQ5_MasqueradeReplacesQuotesWhereverTheyAreCut(t *testing.T) {
	t.Parallel()
	for _, f := range families {
		request, reply := echoTypes(f)
		for _, inner := range [][]byte{
			whole(packet.ProtoTCP, f.external, f.remote, []byte("data")),
			whole(packet.ProtoUDP, f.external, f.remote, []byte("data")),
			echo(f, request, 77), echo(f, reply, 77),
			whole(packet.ProtoSCTP, f.external, f.remote, []byte("data")),
		} {
			inside := parse(t, inner)
			for size := int(inside.Header); size <= len(inner); size++ {
				for _, destination := range []bool{false, true} {
					b := icmpError(f.remote2, f.external, inner[:size])
					before := slices.Clone(b)
					h := parse(t, b)
					var q packet.IP
					quote, ok := packet.ParseQuote(b, &h, &q)
					if !ok {
						continue
					}
					quoted, was := q, slices.Clone(quote)
					to := end(f.inside2, 4321)
					replaceQuoted(b, &h, quote, &q, to, destination)
					checkReplacedQuote(t, before, b, h, was, quoted, to, destination)
				}
			}
		}
	}
}

func replaceQuoted(b []byte, h *packet.IP, quote []byte, q *packet.IP, to nat.Endpoint, destination bool) {
	if destination {
		nat.ReplaceQuotedDestination(b, h, quote, q, to)
	} else {
		nat.ReplaceQuotedSource(b, h, quote, q, to)
	}
}

// checkReplacedQuote compares an ICMP error with the one before: the quote as a
// packet of its own, and its own checksum, as right or wrong as it was.
func checkReplacedQuote(t testing.TB, before, after []byte, h packet.IP, was []byte, quoted packet.IP, to nat.Endpoint, destination bool) {
	t.Helper()
	at := int(h.Header) + packet.ICMPHeaderLen
	checkReplaced(t, was, after[at:at+len(was)], quoted, to, destination)
	pseudo := pseudoHeader(h.Proto, h.Src, h.Dst, 0)
	if h.Proto == packet.ProtoICMP {
		pseudo = nil
	}
	if x, y := excess(pseudo, before[h.Header:h.Len]), excess(pseudo, after[h.Header:h.Len]); x != y {
		t.Fatalf("the error sums to %#x too much, %#x before", y, x)
	}
	restored := slices.Clone(after)
	copy(restored[at:], was)
	copy(restored[h.Header+2:h.Header+4], before[h.Header+2:])
	if !slices.Equal(restored, before) {
		t.Fatalf("more changed than the quote:\n% x\n% x", before, after)
	}
}

func FuzzReplace(f *testing.F) {
	seeds := everyKind()
	for _, x := range families {
		request, reply := echoTypes(x)
		for _, b := range [][]byte{echo(x, request, 1), echo(x, reply, 0xffff)} {
			seeds = append(seeds, b, icmpError(x.remote, x.inside, b), icmpError(x.remote, x.inside, b[:len(b)-4]))
		}
	}
	for i, b := range seeds {
		f.Add(b, uint64(i)*0x9e3779b97f4a7c15, uint16(i*7919), i%2 == 0)
	}
	f.Fuzz(func(t *testing.T, b []byte, address uint64, port uint16, destination bool) {
		var h, q packet.IP
		if packet.Parse(b, &h) != packet.FaultNone {
			return
		}
		to := end(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(address)))), port)
		if h.Version == 6 {
			to.Addr = netip.AddrFrom16([16]byte(binary.BigEndian.AppendUint64([]byte{0x20, 1, 0, 0, 0, 0, 0, 1}, address)))
		}
		before := h
		after, check := guard(b)
		ok := replace(after, &h, to, destination)
		check(t)
		if !ok {
			if !slices.Equal(after, b) || h != before {
				t.Fatalf("refused, but changed:\n% x\n% x", b, after)
			}
		} else {
			checkReplaced(t, b, after, before, to, destination)
		}

		if packet.Parse(b, &h) != packet.FaultNone || !packet.IsICMPError(b, &h) {
			return
		}
		after, check = guard(b)
		quote, ok := packet.ParseQuote(after, &h, &q)
		if !ok {
			return
		}
		quoted, was := q, slices.Clone(quote)
		replaceQuoted(after, &h, quote, &q, to, destination)
		check(t)
		checkReplacedQuote(t, b, after, h, was, quoted, to, destination)
	})
}
