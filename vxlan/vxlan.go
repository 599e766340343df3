package vxlan

import "encoding/binary"

// Port is the UDP port that IANA assigned.
const Port = 4789

// HeaderLen is the length of the header in bytes.
const HeaderLen = 8

// flagVNI is the I flag: the VNI is valid.
const flagVNI = 0x08

// Fault is the reason to drop a packet. The zero value means that there is none.
type Fault uint8

// The faults that Decode reports.
const (
	FaultNone      Fault = iota
	FaultTruncated       // shorter than the header
	FaultFlags           // the I flag is 0
)

// Decode parses the payload of one UDP datagram. payload is an Ethernet frame and
// aliases b. Reserved bits are ignored.
func Decode(b []byte) (vni uint32, payload []byte, fault Fault) {
	switch {
	case len(b) < HeaderLen:
		return 0, nil, FaultTruncated
	case b[0]&flagVNI == 0:
		return 0, nil, FaultFlags
	}
	return binary.BigEndian.Uint32(b[4:]) >> 8, b[HeaderLen:], FaultNone
}

// Put writes a header to the first HeaderLen bytes of b. vni has 24 bits.
func Put(b []byte, vni uint32) {
	binary.BigEndian.PutUint32(b, flagVNI<<24)
	binary.BigEndian.PutUint32(b[4:], vni<<8)
}
