package bench

import (
	"encoding/binary"
	"net/netip"

	"strait.dev/strait/gateway"
	"strait.dev/strait/geneve"
	"strait.dev/strait/packet"
)

// headersLen is what stands before the payload of a frame's UDP packet, bytes.
const headersLen = gateway.EncapLen + packet.IPv4HeaderLen + packet.UDPHeaderLen

// port is where the benchmarks' own UDP packets go to, inside.
const port = 9000

// flow names the two ends of UDP packets over IPv4.
type flow struct {
	src, dst     netip.Addr
	sport, dport uint16
}

// packet is a UDP packet of size bytes, its IP header included, with right
// checksums.
func (f flow) packet(size int) []byte {
	b := make([]byte, size)
	b[0] = 0x45
	binary.BigEndian.PutUint16(b[2:], uint16(size))
	b[6] = 0x40 // DF
	b[8] = 64   // TTL
	b[9] = packet.ProtoUDP
	src, dst := f.src.As4(), f.dst.As4()
	copy(b[12:], src[:])
	copy(b[16:], dst[:])
	binary.BigEndian.PutUint16(b[10:], ^packet.Sum(b[:packet.IPv4HeaderLen], 0))
	u := b[packet.IPv4HeaderLen:]
	binary.BigEndian.PutUint16(u, f.sport)
	binary.BigEndian.PutUint16(u[2:], f.dport)
	binary.BigEndian.PutUint16(u[4:], uint16(len(u)))
	mendPacket(b)
	return b
}

// mendPacket makes the UDP checksum right.
func mendPacket(b []byte) {
	var ip packet.IP
	if packet.Parse(b, &ip) != packet.FaultNone {
		return
	}
	if sum, ok := packet.UpperChecksum(b, &ip); ok {
		binary.BigEndian.PutUint16(ip.Upper(b)[6:], sum)
	}
}

// mendFrame makes the UDP checksum within a frame right.
func mendFrame(b []byte) { mendPacket(b[gateway.EncapLen:]) }

// frame puts a node's headers before an IPv4 packet: Geneve and Ethernet.
func frame(vni uint32, node, gatewayAddress netip.Addr, ip []byte) []byte {
	b := make([]byte, gateway.EncapLen+len(ip))
	geneve.Put(b, vni)
	packet.PutEthernet(b[geneve.HeaderLen:], packet.MACOf(gatewayAddress), packet.MACOf(node), packet.EtherTypeIPv4)
	copy(b[gateway.EncapLen:], ip)
	return b
}

// turn makes a frame from the gateway, of a UDP packet of ours, an answer from
// the node: it exchanges both ends of Ethernet, IP and UDP, which no checksum
// notices.
func turn(b []byte) bool {
	if len(b) < headersLen || b[gateway.EncapLen] != 0x45 {
		return false
	}
	ethernet, ip := b[geneve.HeaderLen:], b[gateway.EncapLen:]
	udp := ip[packet.IPv4HeaderLen:]
	if binary.BigEndian.Uint16(udp[2:]) != port {
		return false
	}
	exchange(ethernet[:6], ethernet[6:12])
	exchange(ip[12:16], ip[16:20])
	exchange(udp[:2], udp[2:4])
	return true
}

func exchange(a, b []byte) {
	for i := range a {
		a[i], b[i] = b[i], a[i]
	}
}

// offset adds n to an IPv4 address.
func offset(a netip.Addr, n int) netip.Addr {
	b := a.As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(n))
	return netip.AddrFrom4(b)
}
