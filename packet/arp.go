package packet

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// The ARP message for IPv4 over Ethernet, RFC 826:
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-------------------------------+-------------------------------+
//	|      hardware type = 1        |    protocol type = 0x0800     |
//	+---------------+---------------+-------------------------------+
//	|    len = 6    |    len = 4    |    operation (1, 2 = reply)   |
//	+---------------+---------------+-------------------------------+
//	|                  sender hardware address                      |
//	+                               +-------------------------------+
//	|                               |   sender protocol address     |
//	+-------------------------------+-------------------------------+
//	|                               |   target hardware address     |
//	+-------------------------------+                               +
//	|                                                               |
//	+---------------------------------------------------------------+
//	|                  target protocol address                      |
//	+---------------------------------------------------------------+
const (
	arpLen       = 28
	arpOperation = 6
	arpSenderMAC = 8
	arpSender    = 14
	arpTargetMAC = 18
	arpTarget    = 24

	arpRequest = 1
	arpReply   = 2
)

// arpKind is the prefix of every ARP message for IPv4 over Ethernet.
var arpKind = [6]byte{0, 1, EtherTypeIPv4 >> 8, EtherTypeIPv4 & 0xff, 6, 4}

// ARPReplyLen is the length in bytes of the frame that PutARPReply writes.
const ARPReplyLen = EthernetHeaderLen + arpLen

// ARP is a request for the Ethernet address of Target. Sender is 0.0.0.0 in a probe
// (RFC 5227 section 1.1).
type ARP struct {
	SenderMAC      MAC
	Sender, Target netip.Addr
}

// ParseARP parses an Ethernet frame. ok is false unless the frame is an ARP request for
// an IPv4 address from a unicast MAC address. Announcements (RFC 5227 section 1.1) are
// not requests. The caller decides whether Target is one of its own addresses.
func ParseARP(frame []byte) (request ARP, ok bool) {
	_, _, etherType, m, ok := ParseEthernet(frame)
	if !ok || etherType != EtherTypeARP || len(m) < arpLen || [6]byte(m) != arpKind || binary.BigEndian.Uint16(m[arpOperation:]) != arpRequest {
		return ARP{}, false
	}
	request = ARP{
		SenderMAC: MAC(m[arpSenderMAC:arpSender]),
		Sender:    netip.AddrFrom4([4]byte(m[arpSender:arpTargetMAC])),
		Target:    netip.AddrFrom4([4]byte(m[arpTarget:arpLen])),
	}
	if !request.SenderMAC.isStation() || request.Sender == request.Target {
		return ARP{}, false
	}
	return request, true
}

// PutARPReply writes the frame that answers request with mac to the first ARPReplyLen
// bytes of dst and returns that length. dst may be the memory that request was parsed from.
func PutARPReply(dst []byte, request ARP, mac MAC) int {
	dst = slices.Clip(dst)
	PutEthernet(dst, request.SenderMAC, mac, EtherTypeARP)
	sender, target := request.Sender.As4(), request.Target.As4()
	m := dst[EthernetHeaderLen:ARPReplyLen]
	copy(m, arpKind[:])
	binary.BigEndian.PutUint16(m[arpOperation:], arpReply)
	copy(m[arpSenderMAC:], mac[:])
	copy(m[arpSender:], target[:])
	copy(m[arpTargetMAC:], request.SenderMAC[:])
	copy(m[arpTarget:], sender[:])
	return ARPReplyLen
}
