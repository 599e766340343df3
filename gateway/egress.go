package gateway

import (
	"encoding/binary"
	"net/netip"
	"time"

	"strait.dev/strait/geneve"
	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
	"strait.dev/strait/vxlan"
)

// Egress is the journey from this cluster's nodes into the tunnel:
//
//	outer source and VNI ► decapsulate ► Ethernet ► validate IP ► anti-spoof ► where to?
//	► TTL ► grant ► finish what the sender's kernel left undone ► fits? ► NAT ► TTL-1 ► MSS clamp
//
// Everything is decided before anything is edited, so that an ICMP error quotes
// the packet as its sender sent it. Not for concurrent use: one Egress per lane.
type Egress struct {
	Counters

	g       *Gateway
	limiter limiter
	last    struct { // the node of the last frame: frames come in runs
		table *Table
		key   nodeKey
		node  *Node
	}
	ip, quoted packet.IP
	pieces     packet.Pieces
	datagram   int // bytes of UDP payload to cut the packet in hand into, 0 = whole
	answer     [packet.MaxICMPErrorLen]byte
}

// NewEgress returns a lane's egress journey.
func NewEgress(g *Gateway) *Egress { return &Egress{g: g} }

// Frame takes one datagram that arrived on the socket for an encapsulation, from
// an outer source address. It may edit b.
func (e *Egress) Frame(b []byte, source netip.Addr, encapsulation Encapsulation, now time.Time) Result {
	return e.SuperFrame(b, source, encapsulation, 0, now)
}

// SuperFrame is Frame for a datagram whose inner UDP packet its sender left to a
// network card to cut into datagrams of size bytes. 0 = there is nothing to cut.
func (e *Egress) SuperFrame(b []byte, source netip.Addr, encapsulation Encapsulation, size int, now time.Time) Result {
	t := e.g.Table()
	e.datagram = size
	r := e.frame(t, b, source, encapsulation, now)
	if r.Reason != NoReason {
		e.CountDropped(r.Reason, 1)
	}
	return r
}

func (e *Egress) frame(t *Table, b []byte, source netip.Addr, encapsulation Encapsulation, now time.Time) Result {
	vni, frame, reason := decapsulate(b, encapsulation)
	if reason != NoReason {
		return drop(reason)
	}
	node := e.node(t, nodeKey{source, vni, encapsulation})
	if node == nil {
		if _, known := t.sources[source]; known {
			return drop(WrongVNI)
		}
		return drop(UnknownSource)
	}
	if len(frame) < packet.EthernetHeaderLen {
		return drop(FrameTruncated)
	}
	if packet.MAC(frame[6:12]) == t.mac {
		return drop(FrameLoop)
	}
	switch etherType(frame) {
	case packet.EtherTypeIPv4, packet.EtherTypeIPv6:
		return e.fromNode(t, node, frame, now)
	case packet.EtherTypeARP:
		return e.answerARP(t, node, frame)
	}
	return drop(FrameEtherType)
}

// SpansFrame reports whether b is one frame whose inner IP packet, by its own
// length, reaches to the end of b. Two frames that the kernel coalesced are not.
// It judges no more than that: b need not be valid.
func SpansFrame(b []byte, encapsulation Encapsulation) bool {
	_, frame, reason := decapsulate(b, encapsulation)
	if reason != NoReason || len(frame) < packet.EthernetHeaderLen+packet.IPv4HeaderLen {
		return false
	}
	ip := frame[packet.EthernetHeaderLen:]
	switch etherType(frame) {
	case packet.EtherTypeIPv4:
		return int(binary.BigEndian.Uint16(ip[2:])) == len(ip)
	case packet.EtherTypeIPv6:
		return packet.IPv6HeaderLen+int(binary.BigEndian.Uint16(ip[4:])) == len(ip)
	}
	return false
}

// decapsulate takes the tunnel header off.
func decapsulate(b []byte, encapsulation Encapsulation) (vni uint32, frame []byte, reason Reason) {
	if encapsulation == VXLAN {
		vni, frame, fault := vxlan.Decode(b)
		return vni, frame, vxlanReason[fault]
	}
	vni, protocol, frame, fault := geneve.Decode(b)
	if fault == geneve.FaultNone && protocol != geneve.ProtocolEthernet {
		return 0, nil, GeneveProtocol
	}
	return vni, frame, geneveReason[fault]
}

var geneveReason = [...]Reason{
	geneve.FaultTruncated: FrameTruncated,
	geneve.FaultVersion:   GeneveVersion,
	geneve.FaultControl:   GeneveControl,
	geneve.FaultCritical:  GeneveCritical,
	geneve.FaultOptions:   GeneveOptions,
}

var vxlanReason = [...]Reason{
	vxlan.FaultTruncated: FrameTruncated,
	vxlan.FaultFlags:     VXLANFlags,
}

func (e *Egress) node(t *Table, k nodeKey) *Node {
	if e.last.table != t || e.last.key != k {
		e.last.table, e.last.key, e.last.node = t, k, t.nodes[k]
	}
	return e.last.node
}

// fromNode takes a frame with an IP packet that a node sent.
func (e *Egress) fromNode(t *Table, node *Node, frame []byte, now time.Time) Result {
	ip, b := &e.ip, frame[packet.EthernetHeaderLen:]
	if f := packet.Parse(b, ip); f != packet.FaultNone {
		return drop(reasonOf[f])
	}
	b = b[:ip.Len]
	e.g.see(FromNode, b)
	if isNeighbour(b, ip) {
		return e.answerSolicitation(t, node, frame)
	}
	if frame[0]&1 != 0 {
		return drop(Multicast) // a link-layer broadcast is not forwarded, RFC 1812 section 5.3.4
	}

	// Anti-spoof: the source must be behind the very node that sent it, and be an
	// address on this side: an external one stands for another.
	from, ok := t.local.Lookup(ip.Src)
	if !ok || from.node != node || from.internal != nil {
		return drop(strangeSource(ip, SpoofedSource))
	}
	remote, ok := t.seen.Lookup(ip.Dst)
	if !ok {
		if t.isOwn(ip.Dst) {
			if packet.IsPartial(b, ip) {
				packet.Complete(b, ip)
			}
			return Result{Verdict: ToHost, Packet: b, Version: ip.Version}
		}
		return e.refuse(t, node, b, strangeDestination(ip), packet.Prohibited, 0, now)
	}
	if ip.TTL <= 1 {
		return e.refuse(t, node, b, TTLExceeded, packet.TimeExceeded, 0, now)
	}
	if reason := t.mayLeave(from, ip.Src); reason != NoReason {
		return e.refuse(t, node, b, reason, packet.Prohibited, 0, now)
	}
	r := Result{Verdict: ToTunnel, Packet: b, Version: ip.Version, Hash: packet.FlowHash(b, ip)}

	// What the sender's kernel left to a network card that was never there:
	// cutting TCP, cutting UDP, or just the checksum.
	tcp, udp := false, e.datagram != 0 && ip.Proto == packet.ProtoUDP
	longest := len(b)
	switch {
	case udp:
		longest = min(longest, int(ip.Header)+packet.UDPHeaderLen+e.datagram)
	case !packet.IsPartial(b, ip):
	case len(b) > t.tunnelMTU && ip.Proto == packet.ProtoTCP:
		tcp = true
	default:
		packet.Complete(b, ip)
	}
	if longest > t.tunnelMTU && !tcp && (ip.DF || udp) {
		return e.refuse(t, node, b, TooBig, packet.TooBig, t.tunnelMTU, now)
	}

	if reason := leave(t, b, ip, &e.quoted, from.external, remote); reason != NoReason {
		return drop(reason)
	}
	packet.DecrementTTL(b, ip)
	if mss := t.mss[index(ip.Version)]; mss != 0 {
		packet.ClampMSS(b, ip, mss)
	}
	e.g.see(IntoTunnel, b)
	valid := true
	switch {
	case tcp:
		r.Pieces = &e.pieces
		valid = r.Pieces.Segments(b, ip, e.g.hints.get(r.Hash, t.tunnelMTU))
	case udp:
		r.Pieces = &e.pieces
		valid = r.Pieces.Datagrams(b, ip, e.datagram)
	case len(b) > t.tunnelMTU:
		r.Pieces = &e.pieces
		r.Pieces.Fragments(b, ip, t.tunnelMTU)
	}
	if !valid {
		return drop(UpperHeader)
	}
	return r
}

// mayLeave says whether what lies behind a local route may talk to the remote cluster.
func (t *Table) mayLeave(from *route, src netip.Addr) Reason {
	switch {
	case from.external != nil:
		return NoReason // the external address was granted when the table was made
	case from.orphan:
		return NoExternalAddress
	}
	if _, ok := t.granted.Lookup(src); !ok {
		return SourceNotGranted
	}
	return NoReason
}

// leave gives the packet its addresses in the remote cluster: source by from
// (nil: pods keep theirs), destination by remote. A packet quoted by an ICMP
// error travelled the other way, so its source changes like our destination and
// its destination like our source.
func leave(t *Table, b []byte, ip, q *packet.IP, from, remote *nat.Map) Reason {
	if packet.IsICMPError(b, ip) {
		quote, reason := readQuote(b, ip, q)
		if reason != NoReason {
			return reason
		}
		sender, ok := t.seen.Lookup(q.Src)
		if !ok {
			return ICMPUnrelated
		}
		receiver, ok := t.local.Lookup(q.Dst)
		if !ok || t.mayLeave(receiver, q.Dst) != NoReason {
			return ICMPUnrelated // nothing from there can have reached that one
		}
		nat.RewriteQuote(b, ip, quote, q, sender, receiver.external)
	}
	if !nat.Rewrite(b, ip, from, remote) {
		return UpperHeader
	}
	return NoReason
}
