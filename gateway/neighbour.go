package gateway

import "strait.dev/strait/packet"

// answerARP answers ARP requests for the gateway's own addresses (RFC 826). Nodes do not need
// it, because their neighbour entries are permanent. It helps with manual debugging, and nodes
// whose entries were deleted.
func (e *Egress) answerARP(t *Table, node *Node, frame []byte) Result {
	request, ok := packet.ParseARP(frame)
	if !ok || !t.isOwn(request.Target) {
		return drop(FrameNeighbour)
	}
	return answerFrame(node, e.answer[:packet.PutARPReply(e.answer[:], request, t.mac)])
}

// answerSolicitation answers neighbour solicitations (RFC 4861 section 7.2.4), like answerARP.
func (e *Egress) answerSolicitation(t *Table, node *Node, frame []byte) Result {
	s, ok := packet.ParseSolicitation(frame)
	if !ok || !t.isOwn(s.Target) {
		return drop(FrameNeighbour)
	}
	return answerFrame(node, e.answer[:packet.PutAdvertisement(e.answer[:], s, t.mac)])
}

// answerFrame returns an Ethernet frame to the node. The request is consumed, not dropped for
// a reason.
func answerFrame(node *Node, frame []byte) Result {
	return Result{Node: node, Answer: frame, AnswerHeader: node.tunnelHeader()}
}

// isNeighbour reports whether b is a neighbour discovery message (RFC 4861), which stays on the
// link.
func isNeighbour(b []byte, ip *packet.IP) bool {
	if ip.Version != 6 || ip.Proto != packet.ProtoICMPv6 || ip.TTL != 255 || ip.Fragment != packet.Unfragmented {
		return false
	}
	u := ip.Upper(b)
	return len(u) > 0 && u[0] >= 133 && u[0] <= 137
}
