package packet

import "encoding/binary"

// part is what a fragment says of itself, and its bytes where they came.
type part struct {
	key     datagramKey
	header  []byte // what stands in front of the fragmentation: IPv4 header, IPv6 per-fragment headers
	payload []byte
	offset  int   // of payload in the datagram's, bytes
	next    uint8 // IPv6: the header behind the fragment header
	more    bool
	df      bool
	ecn     uint8
	size    uint16 // bytes of the fragment as it came
}

// datagramKey is what all fragments of a datagram have alike: IPv4 RFC 791
// section 3.2; IPv6 without the protocol, RFC 8200 section 4.5. IPv4 addresses
// are 4in6, which Parse refuses in IPv6 packets, so the families never mix.
type datagramKey struct {
	src, dst [16]byte
	id       uint32
	proto    uint8
}

// readPart reads a packet that Parse found to be a fragment.
func readPart(b []byte, ip *IP) part {
	f := part{
		key:    datagramKey{src: ip.Src.As16(), dst: ip.Dst.As16()},
		offset: int(ip.fragData),
		df:     ip.DF,
		ecn:    ECN(b, ip.Version),
		size:   ip.Len,
	}
	if ip.Version == 4 {
		f.key.id, f.key.proto = uint32(binary.BigEndian.Uint16(b[4:])), ip.Proto
		f.more = binary.BigEndian.Uint16(b[6:])&ipv4MoreFragments != 0
		f.header, f.payload = b[:ip.Header], b[ip.Header:ip.Len]
		return f
	}
	h := b[ip.fragOffset : ip.fragOffset+fragmentHeaderLen]
	f.key.id = binary.BigEndian.Uint32(h[4:])
	f.next, f.more = h[0], h[3]&ipv6MoreFragments != 0
	f.header, f.payload = b[:ip.fragOffset], b[ip.fragOffset+fragmentHeaderLen:ip.Len]
	return f
}

// cutsUpperHeader reports whether a fragment ends or begins inside the header of
// the upper layer. No sender does that; it hides ports and flags from whoever
// looks at first fragments only (RFC 1858 section 3, RFC 3128). A later fragment
// behind IPv6 destination options is not looked into: an overlap would tell.
func cutsUpperHeader(b []byte, ip *IP) bool {
	if ip.Fragment == LaterFragment {
		return int(ip.fragData) < minUpperHeader(ip.Proto)
	}
	u := ip.Upper(b)
	return len(u) < upperHeader(u, ip.Proto)
}

// minUpperHeader is the least that the header of a protocol has, bytes. The
// smallest fragment has 8, and most have no more than that: UDP and ICMP.
func minUpperHeader(proto uint8) int {
	if proto == ProtoTCP {
		return TCPHeaderLen
	}
	return 8
}

// upperHeader is how long the upper-layer header u says it is, bytes.
func upperHeader(u []byte, proto uint8) int {
	n := minUpperHeader(proto)
	if proto == ProtoTCP && len(u) >= n {
		return max(n, int(u[tcpOffset]>>4)*4)
	}
	return n
}
