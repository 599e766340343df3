package capture

import (
	"encoding/binary"
	"math"

	"strait.dev/strait/packet"
)

// The blocks and options of a pcapng file that are written here
// (draft-ietf-opsawg-pcapng, sections 3 and 4).
const (
	blockSection    = 0x0a0d0d0a
	blockInterface  = 1
	blockPacket     = 6 // "enhanced"
	blockStatistics = 5

	byteOrderMagic = 0x1a2b3c4d
	linkTypeCooked = 113 // a header of cooked bytes, then the packet; see appendCooked
	nanoseconds    = 9   // of time stamps: a second has 10 to the power of that

	optionEnd          = 0
	sectionProgram     = 4
	interfaceName      = 2
	interfaceText      = 3
	interfaceUnit      = 9
	packetFlags        = 2
	statisticsReceived = 4
	statisticsDropped  = 5

	flagInbound, flagOutbound = 1, 2
)

// cooked is the length of what stands before each packet, bytes.
const cooked = 16

// blockOverhead is what every block has: type, and length before and after the rest.
const blockOverhead = 12

// Interface is where packets of a capture were seen. Programs that read the file show its
// name with each packet.
type Interface struct {
	Name, Description string
	Outbound          bool // the gateway sent what was seen there, else it received it
	Datagrams         bool // the IP and UDP headers were made up from what a socket tells
}

// appendSection appends what a file begins with. limit is how many bytes are kept of a
// packet.
func appendSection(b []byte, interfaces []Interface, limit int) []byte {
	b, at := begin(b, blockSection)
	b = binary.LittleEndian.AppendUint32(b, byteOrderMagic)
	b = append(b, 1, 0, 0, 0)                               // version 1.0
	b = binary.LittleEndian.AppendUint64(b, math.MaxUint64) // length not known
	b = appendOption(b, sectionProgram, "strait")
	b = end(b, at)
	for _, i := range interfaces {
		b, at = begin(b, blockInterface)
		b = append(b, linkTypeCooked, 0, 0, 0)
		b = binary.LittleEndian.AppendUint32(b, uint32(cooked+limit))
		b = appendOption(b, interfaceName, i.Name)
		b = appendOption(b, interfaceText, i.Description)
		b = appendOption(b, interfaceUnit, string([]byte{nanoseconds}))
		b = end(b, at)
	}
	return b
}

// appendPacket appends a packet. time is in nanoseconds since the epoch; original is the
// packet's length in bytes, of which data may be the beginning.
func appendPacket(b []byte, in int, outbound bool, time int64, original int, data []byte) []byte {
	b, at := begin(b, blockPacket)
	b = binary.LittleEndian.AppendUint32(b, uint32(in))
	b = appendTime(b, time)
	b = binary.LittleEndian.AppendUint32(b, uint32(cooked+len(data)))
	b = binary.LittleEndian.AppendUint32(b, uint32(cooked+original))
	b = appendCooked(b, outbound, data)
	b = pad(append(b, data...), len(data))
	flags := uint32(flagInbound)
	if outbound {
		flags = flagOutbound
	}
	b = append(b, packetFlags, 0, 4, 0)
	b = binary.LittleEndian.AppendUint32(b, flags)
	return end(b, at)
}

// appendCooked appends the header that Linux puts before packets of interfaces of any kind
// (LINKTYPE_LINUX_SLL): direction, no kind of hardware, no address, and the protocol as in
// Ethernet. libpcap refuses files with several interfaces of raw IP.
func appendCooked(b []byte, outbound bool, ip []byte) []byte {
	direction := byte(0) // to us
	if outbound {
		direction = 4 // sent by us
	}
	protocol := uint16(0)
	if len(ip) > 0 {
		switch ip[0] >> 4 {
		case 4:
			protocol = packet.EtherTypeIPv4
		case 6:
			protocol = packet.EtherTypeIPv6
		}
	}
	b = append(b, 0, direction, 0xff, 0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint16(b, protocol)
}

// appendStatistics appends how many packets an interface has had since the beginning, and
// how many of these are missing in the file.
func appendStatistics(b []byte, in int, time int64, received, dropped uint64) []byte {
	b, at := begin(b, blockStatistics)
	b = binary.LittleEndian.AppendUint32(b, uint32(in))
	b = appendTime(b, time)
	b = append(b, statisticsReceived, 0, 8, 0)
	b = binary.LittleEndian.AppendUint64(b, received)
	b = append(b, statisticsDropped, 0, 8, 0)
	b = binary.LittleEndian.AppendUint64(b, dropped)
	return end(b, at)
}

// begin appends the head of a block, whose length end fills in.
func begin(b []byte, block uint32) ([]byte, int) {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, block)
	return append(b, 0, 0, 0, 0), at
}

// end appends the end of options and that of the block which began there.
func end(b []byte, at int) []byte {
	b = append(b, optionEnd, 0, 0, 0)
	size := uint32(len(b) - at + 4)
	binary.LittleEndian.PutUint32(b[at+4:], size)
	return binary.LittleEndian.AppendUint32(b, size)
}

// appendTime appends a time stamp: the upper half comes first.
func appendTime(b []byte, time int64) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(uint64(time)>>32))
	return binary.LittleEndian.AppendUint32(b, uint32(time))
}

func appendOption(b []byte, code uint16, value string) []byte {
	b = binary.LittleEndian.AppendUint16(b, code)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(value)))
	return pad(append(b, value...), len(value))
}

// pad fills up to a multiple of 4 bytes what has size bytes.
func pad(b []byte, size int) []byte {
	return append(b, make([]byte, -size&3)...)
}
