package gateway_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// view is a packet as a receiver reads it.
type view struct {
	bytes    []byte
	src, dst netip.Addr
	ttl      uint8
	proto    uint8
	offset   int    // of a fragment, bytes
	more     bool   // fragments follow
	upper    []byte // behind all IP headers
}

// read takes a packet apart. Whether checksums are right is for receive to say:
// a quote has the TTL and perhaps the checksum of another moment.
func read(t testing.TB, b []byte) view {
	t.Helper()
	v := view{bytes: b}
	switch {
	case len(b) >= 20 && b[0]>>4 == 4:
		v.src, v.dst = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:]))
		v.ttl, v.proto = b[8], b[9]
		v.more, v.offset = b[6]&0x20 != 0, int(binary.BigEndian.Uint16(b[6:])&0x1fff)*8
		v.upper = b[int(b[0]&15)*4:]
	case len(b) >= 40 && b[0]>>4 == 6:
		v.src, v.dst = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:]))
		v.ttl, v.proto, v.upper = b[7], b[6], b[40:]
		v.skipExtensions()
	default:
		t.Fatalf("no IP packet: % x", b)
	}
	return v
}

// skipExtensions goes behind the IPv6 extension headers that these tests build. A
// quote may end among them.
func (v *view) skipExtensions() {
	for (v.proto == 0 || v.proto == 44 || v.proto == 60) && v.offset == 0 && len(v.upper) >= 8 {
		size := 8 + int(v.upper[1])*8
		if v.proto == 44 {
			word := binary.BigEndian.Uint16(v.upper[2:])
			v.more, v.offset, size = word&1 != 0, int(word&^7), 8
		}
		if len(v.upper) < size {
			return
		}
		v.proto, v.upper = v.upper[0], v.upper[size:]
	}
}

// readWell reads a packet whose IP header a router accepts: its length is its
// own, and its header checksum is right.
func readWell(t testing.TB, b []byte) view {
	t.Helper()
	v := read(t, b)
	if b[0]>>4 == 4 {
		if n := int(binary.BigEndian.Uint16(b[2:])); n != len(b) {
			t.Fatalf("%d bytes say they are %d", len(b), n)
		}
		if slowSum(b[:int(b[0]&15)*4]) != 0xffff {
			t.Fatalf("IPv4 header checksum is wrong: % x", b[:20])
		}
	} else if n := 40 + int(binary.BigEndian.Uint16(b[4:])); n != len(b) {
		t.Fatalf("%d bytes say they are %d", len(b), n)
	}
	return v
}

// receive reads a packet that a host accepts: if it is whole, its upper-layer
// checksum is right too.
func receive(t testing.TB, b []byte) view {
	t.Helper()
	v := readWell(t, b)
	if v.more || v.offset != 0 {
		return v
	}
	pseudo := pseudoHeader(v.proto, v.src, v.dst, len(v.upper))
	switch v.proto {
	case packet.ProtoUDP:
		if v.upper[6] == 0 && v.upper[7] == 0 {
			return v
		}
	case packet.ProtoICMP:
		pseudo = nil
	case packet.ProtoTCP, packet.ProtoICMPv6:
	default:
		return v
	}
	if slowSum(pseudo, v.upper) != 0xffff {
		t.Fatalf("checksum of protocol %d is wrong in % x", v.proto, b)
	}
	return v
}

// expect receives a packet and checks its addresses and TTL.
func expect(t testing.TB, b []byte, src, dst string, ttl uint8) view {
	t.Helper()
	v := receive(t, b)
	if v.src != addr(src) || v.dst != addr(dst) {
		t.Fatalf("%v to %v, want %s to %s", v.src, v.dst, src, dst)
	}
	if v.ttl != ttl {
		t.Fatalf("TTL %d, want %d", v.ttl, ttl)
	}
	return v
}

// expectVerdict fails when a packet does not go where it should.
func expectVerdict(t testing.TB, r gateway.Result, want gateway.Verdict) {
	t.Helper()
	if r.Verdict != want {
		t.Fatalf("verdict %d with reason %q, want verdict %d", r.Verdict, r.Reason, want)
	}
}

// expectDrop fails when a packet is not dropped for a reason.
func expectDrop(t testing.TB, r gateway.Result, want gateway.Reason) {
	t.Helper()
	if r.Verdict != gateway.Drop || r.Reason != want {
		t.Fatalf("verdict %d with reason %q, want a drop for %q", r.Verdict, r.Reason, want)
	}
	if r.Packet != nil || r.Pieces != nil {
		t.Fatal("a dropped packet has something to send")
	}
}

// icmpMeaning is what an ICMP error says, the same in both families.
type icmpMeaning struct{ type4, code4, type6, code6 byte }

var (
	timeExceeded    = icmpMeaning{11, 0, 3, 0}
	tooBig          = icmpMeaning{3, 4, 2, 0}
	hostUnreachable = icmpMeaning{3, 1, 1, 3}
	prohibited      = icmpMeaning{3, 13, 1, 1}
	portUnreachable = icmpMeaning{3, 3, 1, 4}
)

// expectError receives an ICMP error and returns its quote and the MTU in it.
func expectError(t testing.TB, b []byte, src, dst string, ttl uint8, m icmpMeaning) (quote []byte, mtu int) {
	t.Helper()
	v := expect(t, b, src, dst, ttl)
	kind, code := m.type4, m.code4
	mtu = int(binary.BigEndian.Uint32(v.upper[4:]))
	if v.src.Is6() {
		kind, code = m.type6, m.code6
	}
	if v.upper[0] != kind || v.upper[1] != code {
		t.Fatalf("ICMP type %d code %d, want %d, %d", v.upper[0], v.upper[1], kind, code)
	}
	return v.upper[8:], mtu
}

// expectQuote checks that an error quotes a packet byte for byte, and as much of
// it as it may.
func expectQuote(t testing.TB, quote, sent []byte) {
	t.Helper()
	most := 576 - 20 - 8
	if sent[0]>>4 == 6 {
		most = 1280 - 40 - 8
	}
	if want := sent[:min(len(sent), most)]; !bytes.Equal(quote, want) {
		t.Fatalf("quoted, of %d bytes\ngot  % x\nwant % x", len(sent), quote, want)
	}
}

// expectQuoted checks the addresses of a quoted packet and the checksums that a
// host may check before it believes the error: the quoted header's, and the
// quoted message's if all of it is there.
func expectQuoted(t testing.TB, quote []byte, src, dst string) view {
	t.Helper()
	v := read(t, quote)
	if v.src != addr(src) || v.dst != addr(dst) {
		t.Fatalf("quotes %v to %v, want %s to %s", v.src, v.dst, src, dst)
	}
	return v
}

// node takes the header off an answer to a node and checks that it is the node's.
func (w wire) unwrap(t testing.TB, header []byte, version uint8) {
	t.Helper()
	want := w.ethernet(w.mac, gatewayMAC, map[uint8]uint16{4: 0x0800, 6: 0x86dd}[version], nil)
	if !bytes.Equal(header, want) {
		t.Fatalf("header\ngot  % x\nwant % x", header, want)
	}
}

// pieces collects what a result says to send.
func pieces(t testing.TB, r gateway.Result, mtu int) [][]byte {
	t.Helper()
	if r.Pieces == nil {
		if len(r.Packet) > mtu {
			t.Fatalf("%d bytes in one piece, %d fit", len(r.Packet), mtu)
		}
		return [][]byte{r.Packet}
	}
	var all [][]byte
	for r.Pieces.Left() {
		b := make([]byte, mtu)
		b = b[:r.Pieces.Next(b)]
		all = append(all, b)
	}
	return all
}
