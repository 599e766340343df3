package packet_test

import (
	"net/netip"
	"slices"
	"testing"

	"strait.dev/strait/packet"
)

// naiveIP is what a reader of the RFCs finds in a packet, one field after the
// other, with no thought of speed.
type naiveIP struct {
	src, dst          netip.Addr
	proto, ttl        int
	df, first, later  bool
	header, totalSize int
}

func naiveParse(b []byte) (naiveIP, packet.Fault) {
	if len(b) < 20 {
		return naiveIP{}, packet.FaultTruncated
	}
	switch b[0] / 16 {
	case 4:
		return naiveParse4(b)
	case 6:
		return naiveParse6(b)
	}
	return naiveIP{}, packet.FaultVersion
}

func word(b []byte, at int) int { return int(b[at])*256 + int(b[at+1]) }

func naiveParse4(b []byte) (naiveIP, packet.Fault) {
	ip := naiveIP{
		header:    int(b[0]%16) * 4,
		totalSize: word(b, 2),
		ttl:       int(b[8]),
		proto:     int(b[9]),
		src:       netip.AddrFrom4([4]byte(b[12:16])),
		dst:       netip.AddrFrom4([4]byte(b[16:20])),
		df:        b[6]&0b0100_0000 != 0,
	}
	if ip.header < 20 {
		return ip, packet.FaultHeader
	}
	if ip.totalSize < ip.header {
		return ip, packet.FaultLength
	}
	if ip.totalSize > len(b) {
		return ip, packet.FaultTruncated
	}
	if slowSum(b[:ip.header]) != 0xffff {
		return ip, packet.FaultChecksum
	}
	for at := 20; at < ip.header; {
		kind := b[at]
		if kind == 0 {
			break
		}
		if kind == 1 {
			at++
			continue
		}
		if kind == 131 || kind == 137 {
			return ip, packet.FaultSourceRoute
		}
		if at+1 == ip.header || b[at+1] < 2 || at+int(b[at+1]) > ip.header {
			return ip, packet.FaultOptions
		}
		at += int(b[at+1])
	}
	offset, more := word(b, 6)%8192*8, b[6]&0b0010_0000 != 0
	return ip, ip.naiveFragment(offset, more, ip.totalSize-ip.header)
}

func (ip *naiveIP) naiveFragment(offset int, more bool, payload int) packet.Fault {
	ip.first = offset == 0 && more
	ip.later = offset != 0
	if !ip.first && !ip.later {
		return packet.FaultNone
	}
	if payload == 0 || more && payload%8 != 0 || offset+payload > 65535 {
		return packet.FaultFragment
	}
	return packet.FaultNone
}

func naiveParse6(b []byte) (naiveIP, packet.Fault) {
	if len(b) < 40 {
		return naiveIP{}, packet.FaultTruncated
	}
	ip := naiveIP{
		totalSize: 40 + word(b, 4),
		ttl:       int(b[7]),
		src:       netip.AddrFrom16([16]byte(b[8:24])),
		dst:       netip.AddrFrom16([16]byte(b[24:40])),
		df:        true,
	}
	if ip.totalSize > 65535 {
		return ip, packet.FaultLength
	}
	if ip.totalSize > len(b) {
		return ip, packet.FaultTruncated
	}
	mapped := netip.MustParsePrefix("::ffff:0:0/96")
	if in96(mapped, ip.src) || in96(mapped, ip.dst) {
		return ip, packet.FaultHeader
	}
	return ip, ip.naiveExtensions(b[:ip.totalSize], 40, int(b[6]), 0, false)
}

// in96 compares the first 12 bytes; netip.Prefix refuses to judge 4in6 addresses.
func in96(p netip.Prefix, a netip.Addr) bool {
	x, y := p.Addr().As16(), a.As16()
	return slices.Equal(x[:12], y[:12])
}

func (ip *naiveIP) naiveExtensions(b []byte, at, next, walked int, fragmented bool) packet.Fault {
	isExtension := slices.Contains([]int{0, 43, 44, 51, 60, 135, 139, 140}, next)
	if walked == 8 {
		return packet.FaultExtension // the limit comes before the question what is next
	}
	if !isExtension {
		ip.proto, ip.header = next, at
		return packet.FaultNone
	}
	if at+8 > len(b) || next == 44 && fragmented {
		return packet.FaultExtension
	}
	var size int
	switch next {
	case 44:
		size = 8
		if f := ip.naiveFragment(word(b, at+2)/8*8, b[at+3]%2 == 1, len(b)-at-8); f != packet.FaultNone {
			return f
		}
		if ip.later {
			ip.proto, ip.header = int(b[at]), at+8
			return packet.FaultNone
		}
		fragmented = true
	case 51:
		size = (int(b[at+1]) + 2) * 4
	case 43:
		if b[at+2] == 0 || b[at+3] > 0 {
			return packet.FaultSourceRoute
		}
		fallthrough
	default:
		size = (int(b[at+1]) + 1) * 8
	}
	if at+size > len(b) {
		return packet.FaultExtension
	}
	return ip.naiveExtensions(b, at+size, int(b[at]), walked+1, fragmented)
}

// checkParse compares Parse with its twin.
func checkParse(t *testing.T, b []byte) {
	t.Helper()
	var ip packet.IP
	fault := packet.Parse(b, &ip)
	want, wantFault := naiveParse(b)
	if fault != wantFault {
		t.Fatalf("fault %d, want %d: % x", fault, wantFault, b)
	}
	if fault != packet.FaultNone {
		return
	}
	got := naiveIP{
		src: ip.Src, dst: ip.Dst, proto: int(ip.Proto), ttl: int(ip.TTL), df: ip.DF,
		first: ip.Fragment == packet.FirstFragment, later: ip.Fragment == packet.LaterFragment,
		header: int(ip.Header), totalSize: int(ip.Len),
	}
	if got != want {
		t.Fatalf("got  %+v\nwant %+v\nin % x", got, want, b)
	}
	if n := len(ip.Upper(b)); ip.Fragment != packet.LaterFragment && n != int(ip.Len-ip.Header) || ip.Fragment == packet.LaterFragment && n != 0 {
		t.Fatalf("Upper has %d bytes of %+v", n, ip)
	}
}

// repair gives a damaged packet the length and the header checksum it claims,
// so that random bytes get past the first checks.
func repair(b []byte) []byte {
	b = slices.Clone(b)
	switch {
	case len(b) >= 40 && b[0]>>4 == 6:
		b[4], b[5] = byte((len(b)-40)>>8), byte(len(b)-40)
	case len(b) >= 20 && b[0]>>4 == 4:
		b[2], b[3] = byte(len(b)>>8), byte(len(b))
		if n := int(b[0]&15) * 4; n >= 20 && n <= len(b) {
			b[10], b[11] = 0, 0
			sum := ^slowSum(b[:n])
			b[10], b[11] = byte(sum>>8), byte(sum)
		}
	}
	return b
}

func TestI1_ParseAgreesWithTheNaiveParserOnDamagedPackets(t *testing.T) {
	t.Parallel()
	r := random()
	kinds := everyKind()
	for range cases(300_000) {
		b := slices.Clone(kinds[r.IntN(len(kinds))])
		for range r.IntN(4) {
			b[r.IntN(min(len(b), 80))] = byte(r.Uint32()) // the headers
		}
		if r.IntN(4) == 0 {
			b = b[:r.IntN(len(b)+1)]
		}
		if r.IntN(4) != 0 {
			b = repair(b)
		}
		checkParse(t, b)
	}
}

func FuzzParse(f *testing.F) {
	for _, b := range everyKind() {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		checkParse(t, b)
		if len(b) <= packet.MaxLen {
			checkParse(t, repair(b))
		}
	})
}
