package traffic

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"strait.dev/strait/packet"
)

// rawUDP sends UDP packets over IPv4 whose source is chosen packet by packet: a socket
// for each of many flows would cost more than the path under test. It needs
// CAP_NET_RAW, and is for one goroutine.
type rawUDP struct {
	fd     int
	to     unix.SockaddrInet4
	packet []byte
}

// newRawUDP makes a sender of packets with the same payload.
func newRawUDP(to netip.AddrPort, payload []byte) (*rawUDP, error) {
	if !to.Addr().Is4() {
		return nil, fmt.Errorf("raw UDP to %v: only IPv4 can be sent with headers of our own", to)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW) // implies IP_HDRINCL, raw(7)
	if err != nil {
		return nil, fmt.Errorf("open a raw socket: %w; run as root", os.NewSyscallError("socket", err))
	}
	return &rawUDP{fd, unix.SockaddrInet4{Addr: to.Addr().As4()}, udpPacket(to, payload)}, nil
}

// send reports whether the kernel took a packet from a source.
func (r *rawUDP) send(from netip.AddrPort) bool {
	setSource(r.packet, from)
	return unix.Sendto(r.fd, r.packet, 0, &r.to) == nil
}

func (r *rawUDP) close() { unix.Close(r.fd) }

// udpPacket is a packet over IPv4 that has no source yet. Its length and header
// checksum are left to the kernel, raw(7).
func udpPacket(to netip.AddrPort, payload []byte) []byte {
	b := make([]byte, packet.IPv4HeaderLen+packet.UDPHeaderLen, packet.IPv4HeaderLen+packet.UDPHeaderLen+len(payload))
	b = append(b, payload...)
	b[0] = 0x45
	b[6] = 0x40 // DF
	b[8] = 64   // TTL
	b[9] = packet.ProtoUDP
	dst := to.Addr().As4()
	copy(b[16:], dst[:])
	udp := b[packet.IPv4HeaderLen:]
	binary.BigEndian.PutUint16(udp[2:], to.Port())
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	return b
}

// setSource makes a packet come from an address, and its UDP checksum right.
func setSource(b []byte, from netip.AddrPort) {
	src, udp := from.Addr().As4(), b[packet.IPv4HeaderLen:]
	copy(b[12:], src[:])
	binary.BigEndian.PutUint16(udp, from.Port())
	udp[6], udp[7] = 0, 0
	sum := ^packet.Sum(udp, packet.Add(packet.Sum(b[12:20], 0), uint16(packet.ProtoUDP+len(udp)))) // RFC 768
	if sum == 0 {
		sum = 0xffff // 0 would mean that there is none
	}
	binary.BigEndian.PutUint16(udp[6:], sum)
}
