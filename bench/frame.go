package bench

import (
	"encoding/binary"
	"net/netip"

	"strait.dev/strait/gateway"
	"strait.dev/strait/geneve"
	"strait.dev/strait/packet"
)

// port is the inner destination port of the benchmarks' UDP packets.
const port = 9000

// flow is the addresses and ports of UDP packets, both addresses of one family.
type flow struct {
	src, dst     netip.Addr
	sport, dport uint16
}

func (f flow) headersLen() int { return len(f.packet(0)) }

// packet returns a UDP packet of size bytes, including the IP header, with valid checksums; 0: without
// a payload.
func (f flow) packet(size int) []byte {
	return gateway.Probe{
		Protocol: gateway.UDP, Source: f.src, Destination: f.dst, SourcePort: f.sport, Port: f.dport, TTL: 64, Size: size,
	}.Packet()
}

// fixPacketChecksum sets the UDP checksum.
func fixPacketChecksum(b []byte) {
	var ip packet.IP
	if packet.Parse(b, &ip) != packet.FaultNone {
		return
	}
	if sum, ok := packet.UpperChecksum(b, &ip); ok {
		binary.BigEndian.PutUint16(ip.Upper(b)[6:], sum)
	}
}

// fixFrameChecksum sets the UDP checksum of the packet in a frame.
func fixFrameChecksum(b []byte) { fixPacketChecksum(b[gateway.EncapLen:]) }

// frame prepends Geneve and Ethernet headers of a node to an IP packet; none is IPv4.
func frame(vni uint32, node, gatewayAddress netip.Addr, ip []byte) []byte {
	etherType := uint16(packet.EtherTypeIPv4)
	if len(ip) > 0 && ip[0]>>4 == 6 {
		etherType = packet.EtherTypeIPv6
	}
	b := make([]byte, gateway.EncapLen+len(ip))
	geneve.Put(b, vni)
	packet.PutEthernet(b[geneve.HeaderLen:], packet.MACOf(gatewayAddress), packet.MACOf(node), etherType)
	copy(b[gateway.EncapLen:], ip)
	return b
}

// makeResponse turns a frame from the gateway with one of our UDP packets into a response
// of the node: it swaps both ends of Ethernet, IP and UDP, which leaves all checksums
// valid.
func makeResponse(b []byte) bool {
	if len(b) <= gateway.EncapLen {
		return false
	}
	ethernet, ip := b[geneve.HeaderLen:], b[gateway.EncapLen:]
	var addresses, udp []byte
	switch {
	case ip[0] == 0x45 && len(ip) >= packet.IPv4HeaderLen+packet.UDPHeaderLen:
		addresses, udp = ip[12:20], ip[packet.IPv4HeaderLen:]
	case ip[0]>>4 == 6 && len(ip) >= packet.IPv6HeaderLen+packet.UDPHeaderLen && ip[6] == packet.ProtoUDP:
		addresses, udp = ip[8:40], ip[packet.IPv6HeaderLen:]
	default:
		return false
	}
	if binary.BigEndian.Uint16(udp[2:]) != port {
		return false
	}
	swap(ethernet[:6], ethernet[6:12])
	swap(addresses[:len(addresses)/2], addresses[len(addresses)/2:])
	swap(udp[:2], udp[2:4])
	return true
}

func swap(a, b []byte) {
	for i := range a {
		a[i], b[i] = b[i], a[i]
	}
}

// offset adds n to the last 32 bits of an address.
func offset(a netip.Addr, n int) netip.Addr {
	b := a.AsSlice()
	last := b[len(b)-4:]
	binary.BigEndian.PutUint32(last, binary.BigEndian.Uint32(last)+uint32(n))
	moved, _ := netip.AddrFromSlice(b) // the length is unchanged
	return moved
}
