package gateway

import "strait.dev/strait/packet"

// answerARP answers who-has requests for the gateway's own addresses (RFC 826).
// Nodes do not need it: their neighbour entries are permanent. It serves whoever
// looks at the link by hand, and nodes whose entries were deleted.
func (e *Egress) answerARP(t *Table, node *Node, frame []byte) Result {
	request, ok := packet.ParseARP(frame)
	if !ok || !t.isOwn(request.Target) {
		return drop(FrameNeighbour)
	}
	return answerFrame(node, e.answer[:packet.PutARPReply(e.answer[:], request, t.mac)])
}

// answerSolicitation is the same for IPv6 (RFC 4861 section 7.2.4).
func (e *Egress) answerSolicitation(t *Table, node *Node, frame []byte) Result {
	s, ok := packet.ParseSolicitation(frame)
	if !ok || !t.isOwn(s.Target) {
		return drop(FrameNeighbour)
	}
	return answerFrame(node, e.answer[:packet.PutAdvertisement(e.answer[:], s, t.mac)])
}

// answerFrame sends an Ethernet frame back to the node. The frame that asked is
// used up, not dropped for a reason.
func answerFrame(node *Node, frame []byte) Result {
	return Result{Node: node, Answer: frame, AnswerHeader: node.tunnelHeader()}
}

// isNeighbour reports neighbour discovery messages (RFC 4861), which stay on the link.
func isNeighbour(b []byte, ip *packet.IP) bool {
	if ip.Version != 6 || ip.Proto != packet.ProtoICMPv6 || ip.TTL != 255 || ip.Fragment != packet.Unfragmented {
		return false
	}
	u := ip.Upper(b)
	return len(u) > 0 && u[0] >= 133 && u[0] <= 137
}
