package gateway

import "strait.dev/strait/packet"

// passOnCongestion copies a congestion mark from the outer header of a packet from a node to
// the packet (RFC 6040 section 4.2). It reports false for a packet to drop.
//
// The tunnel to the other cluster carries no marks: WireGuard's outer header is Not-ECT, and a
// mark on a received datagram is ignored (RFC 6040 section 4.3, compatibility mode). The
// packet's own ECN field and its DSCP cross the tunnel unchanged.
func passOnCongestion(b []byte, ip *packet.IP, outer uint8) bool {
	ecn, ok := packet.DecapsulateECN(packet.ECN(b, ip.Version), outer)
	if ok {
		packet.SetECN(b, ip, ecn)
	}
	return ok
}
