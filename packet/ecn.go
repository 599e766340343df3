package packet

import "encoding/binary"

// The ECN field: two bits of the IPv4 TOS and of the IPv6 traffic class, RFC 3168
// section 5. The other six are the DSCP, which nothing here touches.
const (
	NotECT uint8 = 0b00 // the transport does not understand congestion marks
	ECT1   uint8 = 0b01
	ECT0   uint8 = 0b10
	CE     uint8 = 0b11 // congestion experienced
)

// ecnMask is the ECN field in a TOS or traffic class.
const ecnMask = 0b11

// ECN reads the ECN field of a packet that Parse has accepted. version is 4 or 6.
func ECN(b []byte, version uint8) uint8 {
	if version == 6 {
		return b[1] >> 4 & ecnMask
	}
	return b[1] & ecnMask
}

// SetECN writes the ECN field of b, which Parse has filled ip from, and mends the IPv4
// header checksum. No upper-layer checksum covers the field.
func SetECN(b []byte, ip *IP, ecn uint8) {
	if ip.Version == 6 {
		// The traffic class lies across two bytes: its low half is the high half of the
		// second (RFC 8200 section 3).
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

// DecapsulateECN gives the ECN field that an inner packet leaves a tunnel with, by those
// it and the outer packet arrived with: figure 4 of RFC 6040. ok is false where the packet
// must be dropped: a router on the way would rather have dropped it than marked it, had
// it seen that the inner transport does not understand marks.
func DecapsulateECN(inner, outer uint8) (ecn uint8, ok bool) {
	ecn = decapsulated[inner&ecnMask][outer&ecnMask]
	return ecn, ecn != dropped
}

// dropped is no ECN field.
const dropped = 0xff

// decapsulated is by inner field, then outer.
var decapsulated = [4][4]uint8{
	NotECT: {NotECT: NotECT, ECT0: NotECT, ECT1: NotECT, CE: dropped},
	ECT0:   {NotECT: ECT0, ECT0: ECT0, ECT1: ECT1, CE: CE},
	ECT1:   {NotECT: ECT1, ECT0: ECT1, ECT1: ECT1, CE: CE},
	CE:     {NotECT: CE, ECT0: CE, ECT1: CE, CE: CE},
}
