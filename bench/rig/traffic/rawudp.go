//go:build linux

package traffic

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
)

// rawUDP sends UDP packets over IPv4 with a source per packet: a socket for each of many
// flows would cost more than the measured path. It needs CAP_NET_RAW. Only one goroutine
// may use it.
type rawUDP struct {
	fd     int
	to     unix.SockaddrInet4
	packet []byte
}

// newRawUDP returns a sender of packets with the same payload.
func newRawUDP(to netip.AddrPort, payload []byte) (*rawUDP, error) {
	if !to.Addr().Is4() {
		return nil, fmt.Errorf("raw UDP to %v: raw packets are supported for IPv4 only", to)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW) // implies IP_HDRINCL, raw(7)
	if err != nil {
		return nil, fmt.Errorf("open a raw socket: %w; run as root", os.NewSyscallError("socket", err))
	}
	return &rawUDP{fd, unix.SockaddrInet4{Addr: to.Addr().As4()}, udpPacket(to, payload)}, nil
}

// send sends a packet from a source and reports whether the kernel accepted it.
func (r *rawUDP) send(from netip.AddrPort) bool {
	setSource(r.packet, from)
	return unix.Sendto(r.fd, r.packet, 0, &r.to) == nil
}

func (r *rawUDP) close() { unix.Close(r.fd) }

// udpPacket returns an IPv4 packet without a source. The kernel sets its length and header
// checksum, raw(7).
func udpPacket(to netip.AddrPort, payload []byte) []byte {
	const headers = packet.IPv4HeaderLen + packet.UDPHeaderLen
	b := gateway.Probe{
		Protocol: gateway.UDP, Source: netip.IPv4Unspecified(), Destination: to.Addr(), Port: to.Port(), TTL: 64, Size: headers + len(payload),
	}.Packet()
	copy(b[headers:], payload)
	return b
}

func setSource(b []byte, from netip.AddrPort) {
	src, udp := from.Addr().As4(), b[packet.IPv4HeaderLen:]
	copy(b[12:], src[:])
	binary.BigEndian.PutUint16(udp, from.Port())
	udp[6], udp[7] = 0, 0
	sum := ^packet.Sum(udp, packet.Add(packet.Sum(b[12:20], 0), uint16(packet.ProtoUDP+len(udp)))) // RFC 768
	if sum == 0 {
		sum = 0xffff // 0 would mean no checksum
	}
	binary.BigEndian.PutUint16(udp[6:], sum)
}
