package packet

import "encoding/binary"

// Values of the ECN field, two bits of the IPv4 TOS or the IPv6 traffic class (RFC 3168
// section 5). The other six bits are the DSCP, which this package does not change.
const (
	NotECT uint8 = 0b00 // the transport is not ECN-capable
	ECT1   uint8 = 0b01
	ECT0   uint8 = 0b10
	CE     uint8 = 0b11 // congestion experienced
)

// ecnMask selects the ECN field of a TOS or traffic class.
const ecnMask = 0b11

// ECN returns the ECN field of a packet that Parse has accepted. version is 4 or 6.
func ECN(b []byte, version uint8) uint8 {
	if version == 6 {
		return b[1] >> 4 & ecnMask
	}
	return b[1] & ecnMask
}

// SetECN writes the ECN field of b and updates the IPv4 header checksum. Parse must have
// filled ip from b. No upper-layer checksum covers the field.
func SetECN(b []byte, ip *IP, ecn uint8) {
	if ip.Version == 6 {
		// The traffic class spans two bytes: its low half is the high half of the second
		// (RFC 8200 section 3).
		b[1] = b[1]&^(ecnMask<<4) | ecn<<4
		return
	}
	from := binary.BigEndian.Uint16(b)
	b[1] = b[1]&^ecnMask | ecn
	to := binary.BigEndian.Uint16(b)
	if from != to {
		sum := binary.BigEndian.Uint16(b[10:])
		binary.BigEndian.PutUint16(b[10:], Update(sum, DeltaOf(from, to)))
	}
}

// DecapsulateECN returns the ECN field of an inner packet after decapsulation, from the
// inner and outer fields as received: figure 4 of RFC 6040. ok is false where the packet
// must be dropped: a router on the path marked congestion on a packet whose inner
// transport is not ECN-capable, and would have dropped it otherwise.
func DecapsulateECN(inner, outer uint8) (ecn uint8, ok bool) {
	ecn = decapsulated[inner&ecnMask][outer&ecnMask]
	return ecn, ecn != dropped
}

// dropped is not a value of the ECN field.
const dropped = 0xff

// decapsulated is indexed by the inner, then the outer ECN field.
var decapsulated = [4][4]uint8{
	NotECT: {NotECT: NotECT, ECT0: NotECT, ECT1: NotECT, CE: dropped},
	ECT0:   {NotECT: ECT0, ECT0: ECT0, ECT1: ECT1, CE: CE},
	ECT1:   {NotECT: ECT1, ECT0: ECT1, ECT1: ECT1, CE: CE},
	CE:     {NotECT: CE, ECT0: CE, ECT1: CE, CE: CE},
}
