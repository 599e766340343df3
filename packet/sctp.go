package packet

import (
	"encoding/binary"
	"hash/crc32"
)

// Offsets and types in an SCTP packet: RFC 9260 sections 3.1, 3.2, 3.3.2 and 3.3.3.
const (
	sctpChecksum    = 8
	sctpHeaderLen   = 12
	sctpInit        = 1
	sctpInitAck     = 2
	sctpInitLen     = 20 // of the chunk, before its parameters
	sctpIPv4Address = 5
	sctpIPv6Address = 6
	sctpPadding     = 0x8005 // RFC 4820 section 4: the receiver ignores it
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// HideSCTPAddresses replaces the addresses that an SCTP INIT or INIT ACK lists (RFC 9260
// section 3.3.2.1) by padding of the same length, and updates the CRC32c; a damaged packet
// stays damaged. The association then uses the addresses of the IP header only. It reports
// whether it changed b.
func HideSCTPAddresses(b []byte, ip *IP) (changed bool) {
	return ip.Proto == ProtoSCTP && ip.Fragment == Unfragmented && hideSCTPAddresses(ip.Upper(b)) // inlined: most packets are not SCTP
}

func hideSCTPAddresses(u []byte) (changed bool) {
	if len(u) < sctpHeaderLen+sctpInitLen {
		return false
	}
	chunk := u[sctpHeaderLen:]
	if chunk[0] != sctpInit && chunk[0] != sctpInitAck {
		return false
	}
	length := int(binary.BigEndian.Uint16(chunk[2:]))
	if length < sctpInitLen || length > len(chunk) {
		return false
	}
	before := uint32(0)
	for p := chunk[sctpInitLen:length]; len(p) >= 4; {
		size := int(binary.BigEndian.Uint16(p[2:]))
		if size < 4 || size > len(p) {
			break
		}
		switch binary.BigEndian.Uint16(p) {
		case sctpIPv4Address, sctpIPv6Address:
			if !changed {
				before, changed = crc32.Checksum(u, castagnoli), true
			}
			binary.BigEndian.PutUint16(p, sctpPadding)
			clear(p[4:size])
		}
		p = p[min((size+3)&^3, len(p)):]
	}
	if changed { // a CRC is linear: the difference does not depend on the CRC field itself
		field := u[sctpChecksum:]
		binary.LittleEndian.PutUint32(field, binary.LittleEndian.Uint32(field)^before^crc32.Checksum(u, castagnoli))
	}
	return changed
}
