package geneve

import "encoding/binary"

// Port is the UDP port that IANA assigned.
const Port = 6081

// HeaderLen is the length in bytes of the header without options.
const HeaderLen = 8

// ProtocolEthernet marks an Ethernet frame as payload (Trans Ether Bridging).
const ProtocolEthernet = 0x6558

// Fields of the first two bytes and of an option header.
const (
	version        = 0xc0
	optLen         = 0x3f // in 4-byte units
	control        = 0x80
	critical       = 0x40
	optionLen      = 0x1f // in 4-byte units, behind the option's header
	optionCritical = 0x80

	optionHeaderLen = 4
)

// Fault is the reason to drop a packet. The zero value means that there is none.
type Fault uint8

// The faults that Decode reports.
const (
	FaultNone      Fault = iota
	FaultTruncated       // shorter than its header and options
	FaultVersion         // a version other than 0, RFC 8926 section 3.4
	FaultControl         // O bit: for the endpoint itself, never to be forwarded
	FaultCritical        // a critical option; none is supported
	FaultOptions         // option lengths that do not add up to Opt Len, RFC 8926 section 3.5.1
)

// Decode parses the payload of one UDP datagram. payload aliases b. Non-critical options
// are skipped and reserved bits are ignored. The caller checks the protocol type.
func Decode(b []byte) (vni uint32, protocol uint16, payload []byte, fault Fault) {
	if len(b) < HeaderLen {
		return 0, 0, nil, FaultTruncated
	}
	header := HeaderLen + int(b[0]&optLen)*4
	switch {
	case b[0]&version != 0:
		return 0, 0, nil, FaultVersion
	case b[1]&control != 0:
		return 0, 0, nil, FaultControl
	case b[1]&critical != 0:
		return 0, 0, nil, FaultCritical
	case header > len(b):
		return 0, 0, nil, FaultTruncated
	}
	if header > HeaderLen {
		if f := checkOptions(b[HeaderLen:header]); f != FaultNone {
			return 0, 0, nil, f
		}
	}
	return binary.BigEndian.Uint32(b[4:]) >> 8, binary.BigEndian.Uint16(b[2:]), b[header:], FaultNone
}

// checkOptions walks the options, whose length is a multiple of 4. A critical option is
// a fault even if the C bit of the header is clear.
func checkOptions(options []byte) Fault {
	fault := FaultNone
	for len(options) > 0 {
		size := optionHeaderLen + int(options[3]&optionLen)*4
		if size > len(options) {
			return FaultOptions
		}
		if options[2]&optionCritical != 0 {
			fault = FaultCritical
		}
		options = options[size:]
	}
	return fault
}

// Put writes a header for an Ethernet frame, without options, to the first
// HeaderLen bytes of b. vni has 24 bits.
func Put(b []byte, vni uint32) {
	binary.BigEndian.PutUint32(b, ProtocolEthernet)
	binary.BigEndian.PutUint32(b[4:], vni<<8)
}
