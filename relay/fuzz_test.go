package relay

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"strait.dev/strait/packet"
)

// FuzzWhatCallersSend puts any packet on the gateway's link: nothing panics, and whatever
// the gateway answers is well-formed, which note checks.
func FuzzWhatCallersSend(f *testing.F) {
	w := newWorld(f, Limits{})
	w.serveUDP(port)
	for _, upper := range []struct {
		protocol uint8
		bytes    []byte
	}{
		{packet.ProtoTCP, tcpSegment(header.TCPFlagSyn)},
		{packet.ProtoTCP, tcpSegment(header.TCPFlagSyn | header.TCPFlagAck)},
		{packet.ProtoTCP, tcpSegment(header.TCPFlagRst)},
		{packet.ProtoUDP, []byte{0x12, 0x34, byte(port >> 8), byte(port & 0xff), 0, 9, 0, 0, 'x'}},
		{packet.ProtoUDP, []byte{0x12, 0x34, 0, 53, 0xff, 0xff, 0, 0}},
		{packet.ProtoICMP, []byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0}},
		{packet.ProtoICMP, []byte{3, 3, 0xfc, 0xfc, 0, 0, 0, 0, 0x45}},
		{132, []byte("SCTP")},
	} {
		f.Add(ipv4To(callerAddr, mappedAddr, upper.protocol, upper.bytes))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		protocol := header.IPv4ProtocolNumber
		if b[0]>>4 == 6 {
			protocol = header.IPv6ProtocolNumber
		}
		p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(b)})
		w.link.InjectInbound(protocol, p)
		p.DecRef()
	})
}

func tcpSegment(flags header.TCPFlags) []byte {
	b := make(header.TCP, header.TCPMinimumSize)
	b.Encode(&header.TCPFields{SrcPort: 4000, DstPort: port, SeqNum: 7, DataOffset: header.TCPMinimumSize, Flags: flags, WindowSize: 1000})
	sum := header.PseudoHeaderChecksum(header.TCPProtocolNumber, stackAddress(callerAddr), stackAddress(mappedAddr), header.TCPMinimumSize)
	b.SetChecksum(^b.CalculateChecksum(sum))
	return b
}

func ipv4To(from, to netip.Addr, protocol uint8, payload []byte) []byte {
	ip := make(header.IPv4, header.IPv4MinimumSize)
	ip.Encode(&header.IPv4Fields{
		TotalLength: uint16(len(ip) + len(payload)), TTL: 60, Protocol: protocol, SrcAddr: stackAddress(from), DstAddr: stackAddress(to),
	})
	binary.BigEndian.PutUint16(ip[10:], ^ip.CalculateChecksum())
	return append(ip, payload...)
}
