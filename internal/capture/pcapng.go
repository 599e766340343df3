package capture

import (
	"encoding/binary"
	"math"

	"strait.dev/strait/packet"
)

// The pcapng blocks and options used here (draft-ietf-opsawg-pcapng, sections 3 and 4).
const (
	blockSection    = 0x0a0d0d0a
	blockInterface  = 1
	blockPacket     = 6 // "enhanced"
	blockStatistics = 5

	byteOrderMagic = 0x1a2b3c4d
	linkTypeCooked = 113 // a header of length cooked, then the packet; see appendCooked
	nanoseconds    = 9   // resolution of timestamps: 10 to the power of -9 s

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

// cooked is the length in bytes of the header before each packet.
const cooked = 16

// blockOverhead is the overhead of every block: type, and length before and after the body.
const blockOverhead = 12

// Interface is a capture point. Programs that read the file show its name with each packet.
type Interface struct {
	Name, Description string
	Outbound          bool // packets at this point were sent by the gateway, not received
	Datagrams         bool // the IP and UDP headers are reconstructed from what a socket reports
}

// appendSection appends the header of a file. limit is the maximum number of bytes per packet.
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

// appendPacket appends the first bytes of a packet of a length. time is in ns since the epoch.
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

// appendCooked appends the header that Linux uses for packets of any interface (LINKTYPE_LINUX_SLL): direction, no hardware
// type, no address, and the protocol as in Ethernet. libpcap refuses files with several interfaces of raw IP.
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

// appendStatistics appends the number of packets since the start, and of those missing in the file.
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

// begin appends the header of a block, whose length end sets.
func begin(b []byte, block uint32) ([]byte, int) {
	at := len(b)
	b = binary.LittleEndian.AppendUint32(b, block)
	return append(b, 0, 0, 0, 0), at
}

// end ends the options and the block that started at offset at.
func end(b []byte, at int) []byte {
	b = append(b, optionEnd, 0, 0, 0)
	size := uint32(len(b) - at + 4)
	binary.LittleEndian.PutUint32(b[at+4:], size)
	return binary.LittleEndian.AppendUint32(b, size)
}

// appendTime appends a timestamp, the upper half first.
func appendTime(b []byte, time int64) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(uint64(time)>>32))
	return binary.LittleEndian.AppendUint32(b, uint32(time))
}

func appendOption(b []byte, code uint16, value string) []byte {
	b = binary.LittleEndian.AppendUint16(b, code)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(value)))
	return pad(append(b, value...), len(value))
}

// pad appends zeros after size bytes, up to a multiple of 4.
func pad(b []byte, size int) []byte {
	return append(b, make([]byte, -size&3)...)
}
