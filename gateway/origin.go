package gateway

import (
	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// Origin is the journey of packets that the gateway's own host stack sends: to a node, or into
// the tunnel. The host belongs to this cluster and sees the remote under the same addresses as
// the cluster. Not for concurrent use.
type Origin struct {
	Counters

	g          *Gateway
	ip, quoted packet.IP
	pieces     packet.Pieces
}

// NewOrigin returns the journey of the host stack's packets.
func NewOrigin(g *Gateway) *Origin { return &Origin{g: g} }

// Packet processes one IP packet from the host stack. It may edit b. The packet fits every leg:
// the host's interface has the MTU of the whole path.
func (o *Origin) Packet(b []byte) Result {
	r := o.packet(o.g.Table(), b)
	if r.Verdict == Drop {
		o.CountDropped(r.Reason, 1)
	}
	return r
}

// SuperPacket processes one TCP packet that the host stack left to its interface to segment (TSO): the Pieces of the
// result are its segments, of at most mss bytes of payload, which fit every leg. Its checksum is not read.
func (o *Origin) SuperPacket(b []byte, mss int) Result {
	t := o.g.Table()
	r := o.packet(t, b)
	if r.Verdict != Drop {
		tcp, _ := packet.TCPHeaderOK(r.Packet, &o.ip)
		if o.pieces.Segments(r.Packet, &o.ip, min(int(o.ip.Header)+tcp+mss, t.MTU())) {
			r.Pieces = &o.pieces
		} else {
			r = drop(UpperHeader)
		}
	}
	if r.Verdict == Drop {
		o.CountDropped(r.Reason, 1)
	}
	return r
}

func (o *Origin) packet(t *Table, b []byte) Result {
	ip := &o.ip
	if f := packet.Parse(b, ip); f != packet.FaultNone {
		return drop(reasonOf[f])
	}
	b = b[:ip.Len]
	r := Result{Packet: b, Version: ip.Version, Hash: packet.FlowHash(b, ip)}
	remote, ok := t.seen.Lookup(ip.Dst)
	if !ok {
		return o.toNode(t, r)
	}
	from, ok := t.local.Lookup(ip.Src)
	if !ok {
		return drop(strangeSource(ip, SpoofedSource))
	}
	if from.internal != nil {
		return drop(NoExternalAddress) // replies would go to the internal address it stands for
	}
	if reason := from.mayLeave(t.grants(ip.Src)); reason != NoReason {
		return drop(reason)
	}
	if reason := leave(t, nil, b, ip, &o.quoted, from, nat.Endpoint{}, remote); reason != NoReason {
		return drop(reason)
	}
	r.Verdict = ToTunnel
	return r
}

func (o *Origin) toNode(t *Table, r Result) Result {
	ip := &o.ip
	if ip.Version == 6 && ip.Dst.IsLinkLocalUnicast() {
		r.Verdict = ToTunnel // between the hosts at both ends of a link
		return r
	}
	to, ok := t.local.Lookup(ip.Dst)
	if !ok || to.node == nil {
		return drop(strangeDestination(ip))
	}
	r.Verdict, r.Node = ToNode, to.node
	return r
}
