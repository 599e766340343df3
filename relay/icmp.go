package relay

import (
	"encoding/binary"
	"net/netip"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"strait.dev/strait/packet"
)

// icmpForm is the type and code of an error in both families.
type icmpForm struct{ type4, code4, type6, code6 uint8 }

// The errors sent to clients: RFC 792 and RFC 1812 section 5.2.7.1, RFC 4443 section 3.1.
var (
	hostUnreachable = icmpForm{3, 1, 1, 3}
	portUnreachable = icmpForm{3, 3, 1, 4}
	prohibited      = icmpForm{3, 13, 1, 1}
)

// quoteLen is how many bytes of a packet an error quotes: all headers that a client's stack reads, and small enough for
// any link.
const quoteLen = 128

// quote returns the beginning of a packet as received.
func quote(pkt *stack.PacketBuffer) []byte {
	b := make([]byte, 0, quoteLen)
	for _, part := range [][]byte{pkt.NetworkHeader().Slice(), pkt.TransportHeader().Slice()} {
		b = append(b, part[:min(len(part), quoteLen-len(b))]...)
	}
	return b
}

// tell sends the sender of a packet an ICMP error about it, from the packet's destination address. The stack's ICMP rate
// limit applies.
func (r *Relay) tell(what icmpForm, quoted []byte) {
	src, dst, ok := endsOf(quoted)
	if !ok || !r.stack.AllowICMPMessage() {
		return
	}
	message := make([]byte, packet.ICMPHeaderLen, packet.ICMPHeaderLen+len(quoted))
	message[0], message[1] = what.type4, what.code4
	if dst.Is6() {
		message[0], message[1] = what.type6, what.code6
	}
	r.sendICMP(dst, src, append(message, quoted...))
}

// sendICMP sends an ICMP message and computes its checksum. It keeps message.
func (r *Relay) sendICMP(from, to netip.Addr, message []byte) {
	binary.BigEndian.PutUint16(message[2:], 0)
	transport, sum := header.ICMPv4ProtocolNumber, ^packet.Sum(message, 0)
	if to.Is6() {
		transport = header.ICMPv6ProtocolNumber
		sum = header.ICMPv6Checksum(header.ICMPv6ChecksumParams{Header: message, Src: stackAddress(from), Dst: stackAddress(to)})
	}
	binary.BigEndian.PutUint16(message[2:], sum)
	_ = r.write(transport, from, to, message) // lost, like any packet, if the link cannot take it
}

// write sends a packet of the stack, in fragments if it is longer than the link's MTU. It keeps message.
func (r *Relay) write(transport tcpip.TransportProtocolNumber, from, to netip.Addr, message []byte) error {
	network := header.IPv4ProtocolNumber
	if to.Is6() {
		network = header.IPv6ProtocolNumber
	}
	route, err := r.stack.FindRoute(r.nic, stackAddress(from), stackAddress(to), network, false)
	if err != nil {
		return stackError{"find a route", err} // the stack no longer has the address
	}
	defer route.Release()
	pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{
		ReserveHeaderBytes: int(route.MaxHeaderLength()), Payload: buffer.MakeWithData(message),
	})
	defer pkt.DecRef()
	pkt.TransportProtocolNumber = transport
	if err := route.WritePacket(stack.NetworkHeaderParams{Protocol: transport, TTL: route.DefaultTTL()}, pkt); err != nil {
		return stackError{"send", err}
	}
	return nil
}

// endsOf returns the addresses of an IP packet.
func endsOf(b []byte) (src, dst netip.Addr, ok bool) {
	switch {
	case len(b) >= header.IPv4MinimumSize && b[0]>>4 == 4:
		return netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:])), true
	case len(b) >= header.IPv6MinimumSize && b[0]>>4 == 6:
		return netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:])), true
	}
	return src, dst, false
}
