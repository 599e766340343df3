package packet

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// Neighbour solicitations and advertisements have the same format, RFC 4861 sections 4.3
// and 4.4; a solicitation has no flags:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+---------------+-------------------------------+
//	|  Type 135/136 |   Code = 0    |           Checksum            |
//	+-+-+-+---------+---------------+-------------------------------+
//	|R|S|O|                      Reserved                           |
//	+-+-+-+---------------------------------------------------------+
//	|                        Target Address                         |
//	|                          (16 bytes)                           |
//	+---------------+---------------+-------------------------------+
//	|  Option type  |  8-byte units |  link-layer address (6) ...
//	+---------------+---------------+-------------------------------+
const (
	neighbourSolicitation  = 135
	neighbourAdvertisement = 136

	neighbourLen    = 24
	neighbourTarget = 8

	neighbourRouter    = 0x80
	neighbourSolicited = 0x40
	neighbourOverride  = 0x20

	optionSourceMAC = 1
	optionTargetMAC = 2
	optionMACLen    = 8

	// neighbourHopLimit proves that no router forwarded the message, RFC 4861 section 7.1.
	neighbourHopLimit = 255
)

// AdvertisementLen is the length in bytes of the frame that PutAdvertisement writes.
const AdvertisementLen = EthernetHeaderLen + IPv6HeaderLen + neighbourLen + optionMACLen

// The destination of an unsolicited advertisement: all nodes (RFC 4291 section 2.7.1) and
// the Ethernet address of that group (RFC 2464 section 7).
var (
	allNodes    = netip.AddrFrom16([16]byte{0: 0xff, 1: 0x02, 15: 1})
	allNodesMAC = MAC{0x33, 0x33, 0, 0, 0, 1}
)

// Solicitation is a neighbour solicitation for Target. Source is :: during duplicate
// address detection (RFC 4862 section 5.4). SourceMAC is the value of the source
// link-layer address option, or the source of the frame.
type Solicitation struct {
	SourceMAC      MAC
	Source, Target netip.Addr
}

// ParseSolicitation parses an Ethernet frame. ok is false unless the frame is a valid
// neighbour solicitation (RFC 4861 section 7.1.1) from a unicast MAC address; fragments
// are not valid (RFC 6980 section 5). The caller decides whether Target is one of its own
// addresses.
func ParseSolicitation(frame []byte) (s Solicitation, ok bool) {
	_, src, etherType, b, ok := ParseEthernet(frame)
	if !ok || etherType != EtherTypeIPv6 {
		return Solicitation{}, false
	}
	var ip IP
	if Parse(b, &ip) != FaultNone || ip.Version != 6 || ip.Proto != ProtoICMPv6 || ip.TTL != neighbourHopLimit || ip.fragOffset != 0 {
		return Solicitation{}, false
	}
	m := ip.Upper(b)
	if len(m) < neighbourLen || m[0] != neighbourSolicitation || m[1] != 0 || !ICMPChecksumOK(b, &ip) {
		return Solicitation{}, false
	}
	target := netip.AddrFrom16([16]byte(m[neighbourTarget:neighbourLen]))
	mac, found, ok := sourceMAC(m[neighbourLen:])
	if !found {
		mac = src
	}
	switch {
	case !ok, !mac.isStation(), target.IsMulticast(), target.Is4In6(), ip.Src.IsMulticast():
		return Solicitation{}, false
	case ip.Src.IsUnspecified() && (found || ip.Dst != solicitedNode(target)):
		return Solicitation{}, false
	}
	return Solicitation{SourceMAC: mac, Source: ip.Src, Target: target}, true
}

// sourceMAC walks the options of a solicitation. ok is false when one is malformed.
func sourceMAC(options []byte) (mac MAC, found, ok bool) {
	for len(options) > 0 {
		if len(options) < 2 {
			return MAC{}, false, false
		}
		size := int(options[1]) * 8
		if size == 0 || size > len(options) {
			return MAC{}, false, false
		}
		if options[0] == optionSourceMAC && size == optionMACLen {
			mac, found = MAC(options[2:optionMACLen]), true
		}
		options = options[size:]
	}
	return mac, found, true
}

// solicitedNode returns the solicited-node multicast address of a, RFC 4291 section 2.7.1.
func solicitedNode(a netip.Addr) netip.Addr {
	b := a.As16()
	return netip.AddrFrom16([16]byte{0: 0xff, 1: 0x02, 11: 1, 12: 0xff, 13: b[13], 14: b[14], 15: b[15]})
}

// PutAdvertisement writes the frame that answers s with mac to the first AdvertisementLen
// bytes of dst and returns that length. The advertisement comes from the target, has the
// router and override flags, and goes to the source of s, or to all nodes if that is ::
// (RFC 4861 section 7.2.4). dst may be the memory that s was parsed from.
func PutAdvertisement(dst []byte, s Solicitation, mac MAC) int {
	to, toMAC, flags := s.Source, s.SourceMAC, byte(neighbourRouter|neighbourSolicited|neighbourOverride)
	if s.Source.IsUnspecified() {
		to, toMAC, flags = allNodes, allNodesMAC, neighbourRouter|neighbourOverride
	}
	dst = slices.Clip(dst)
	PutEthernet(dst, toMAC, mac, EtherTypeIPv6)
	appendIPv6(dst[:EthernetHeaderLen], 0, neighbourLen+optionMACLen, ProtoICMPv6, neighbourHopLimit, s.Target, to)

	m := dst[EthernetHeaderLen+IPv6HeaderLen : AdvertisementLen]
	clear(m[:neighbourTarget])
	target := s.Target.As16()
	m[0] = neighbourAdvertisement
	m[4] = flags
	copy(m[neighbourTarget:], target[:])
	m[neighbourLen], m[neighbourLen+1] = optionTargetMAC, optionMACLen/8
	copy(m[neighbourLen+2:], mac[:])
	sum := PseudoSum(s.Target, to, ProtoICMPv6, len(m))
	binary.BigEndian.PutUint16(m[2:], ^Sum(m, sum))
	return AdvertisementLen
}
