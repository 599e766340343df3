package gateway

import "strait.dev/strait/packet"

// division is how a packet is divided so that the next leg carries it.
type division struct {
	by      divisor
	size    int  // bytes of the longest piece; not used by datagrams
	cwrOnce bool // of segments: only the first one has CWR
}

// divisor is what a packet is divided into.
type divisor uint8

const (
	uncut        divisor = iota
	segments             // of TCP, which the sender's kernel left to a network card
	datagrams            // of UDP, likewise
	belowMinimum         // fragments of an IPv6 packet that every IPv6 link carries (RFC 8200, section 5), but not this leg: the sender would ignore an error
	fragments
)

// fit decides how to divide a packet for a leg with an MTU, and completes its checksum if the sender's
// kernel left that to a network card and the packet stays whole. longest is the length of the longest
// fragment of a reassembled datagram, which may be fragmented as before; 0: it was not reassembled. fits
// is false if the leg cannot carry the packet.
func (e *Egress) fit(mtu int, b []byte, ip *packet.IP, longest int) (how division, fits bool) {
	if e.datagram != 0 && ip.Proto == packet.ProtoUDP {
		if longest == 0 {
			longest = min(len(b), int(ip.Header)+packet.UDPHeaderLen+e.datagram)
		}
		return division{by: datagrams}, longest <= mtu
	}
	if packet.IsPartial(b, ip) {
		if size, cwrOnce := e.g.hints.segment(mtu, b, ip); size != 0 {
			return division{segments, size, cwrOnce}, true
		}
		packet.Complete(b, ip)
	}
	if longest == 0 {
		longest = len(b)
	}
	switch {
	case longest > mtu && ip.Version == 6 && len(b) <= packet.MinIPv6MTU:
		return division{by: belowMinimum, size: mtu}, true
	case longest > mtu && ip.DF:
		return division{}, false
	case len(b) > mtu:
		return division{by: fragments, size: min(longest, mtu)}, true
	}
	return division{}, true
}

// divide divides a packet. It reports whether the packet's headers allow that.
func (e *Egress) divide(flows *Flows, b []byte, ip *packet.IP, how division, hash uint32) (valid bool) {
	switch how.by {
	case segments:
		valid = e.pieces.Segments(b, ip, how.size)
		if how.cwrOnce {
			e.pieces.CWROnce()
		}
	case datagrams:
		valid = e.pieces.Datagrams(b, ip, e.datagram)
	case belowMinimum:
		valid = e.pieces.FragmentsBelowMinimum(b, ip, how.size, hash^e.g.fragmentIDs.Add(1))
	case fragments:
		valid = flows.cut(&e.pieces, b, ip, how.size)
	}
	return valid
}
