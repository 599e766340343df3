package gateway

import "strait.dev/strait/packet"

// passOnCongestion gives a packet from a node the mark that routers on the way put on
// the header around it (RFC 6040 section 4.2). It reports false for a packet to drop.
//
// The tunnel to the other cluster carries no marks: WireGuard's own header says that it
// understands none, and what arrives with one all the same changes nothing (RFC 6040
// section 4.3, compatibility mode). A packet's own field crosses it untouched, like its
// DSCP.
func passOnCongestion(b []byte, ip *packet.IP, outer uint8) bool {
	ecn, ok := packet.DecapsulateECN(packet.ECN(b, ip.Version), outer)
	if ok {
		packet.SetECN(b, ip, ecn)
	}
	return ok
}
