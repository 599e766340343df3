//go:build linux

package userspace

import "strait.dev/strait/packet"

// flowOf returns the hash of the IP packet in a frame, equal for all packets of a flow; 0
// if the frame holds no IP packet.
func flowOf(frame []byte) uint32 {
	_, _, etherType, payload, ok := packet.ParseEthernet(frame)
	if !ok || etherType != packet.EtherTypeIPv4 && etherType != packet.EtherTypeIPv6 {
		return 0
	}
	var ip packet.IP
	if packet.Parse(payload, &ip) != packet.FaultNone {
		return 0
	}
	return packet.FlowHash(payload, &ip)
}
