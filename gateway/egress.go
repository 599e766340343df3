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
//	outer source and VNI ► decapsulate ► Ethernet ► validate IP ► congestion ► anti-spoof ► destination
//	► TTL ► grant ► owner ► complete the work the sender's kernel offloaded ► MTU ► NAT ► TTL-1 ► MSS clamp
//
// An ICMP error quotes the packet as its sender sent it, except for what the gateway changes
// before it decides: the congestion mark, and checksums that the sender's kernel offloaded.
// Not for concurrent use: one Egress per link.
type Egress struct {
	Counters

	g       *Gateway
	limiter limiter
	last    struct { // cache: consecutive frames often have the same node
		table *Table
		key   NodeKey
		node  *Node
	}
	lookup     lookup[outward]
	ip, quoted packet.IP
	pieces     packet.Pieces
	whole      []byte // buffer for a reassembled datagram; nil before the first
	datagram   int    // UDP payload bytes per piece of the current packet, 0 = do not cut

	reassembled bool // the current packet lies in whole
	answer      [packet.MaxICMPErrorLen]byte
	hint        [packet.MinIPv6MTU]byte
}

// NewEgress returns the egress journey of a link.
func NewEgress(g *Gateway) *Egress { return &Egress{g: g} }

// Frame processes one datagram from a node. It may edit b.
func (e *Egress) Frame(b []byte, from Outer, now time.Time) Result {
	return e.SuperFrame(b, from, 0, now)
}

// SuperFrame is Frame for a datagram whose inner UDP packet its sender left to a network card
// to segment into datagrams with size bytes of payload; 0 = nothing to segment.
func (e *Egress) SuperFrame(b []byte, from Outer, size int, now time.Time) Result {
	t := e.g.Table()
	e.datagram, e.reassembled = size, false
	r := e.frame(t, b, from, now)
	if r.Reason != NoReason {
		e.CountDropped(r.Reason, 1)
	}
	return r
}

func (e *Egress) frame(t *Table, b []byte, from Outer, now time.Time) Result {
	vni, frame, reason := decapsulate(b, from.Encapsulation)
	if reason != NoReason {
		return drop(reason)
	}
	node := e.node(t, NodeKey{from.Source, vni, from.Encapsulation})
	if node == nil {
		if _, known := t.sources[from.Source]; known {
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
		return e.fromNode(t, node, frame, from.ECN, now)
	case packet.EtherTypeARP:
		return e.answerARP(t, node, frame)
	}
	return drop(FrameEtherType)
}

// SpansFrame reports whether b is one frame whose inner IP packet, by its own length, ends at
// the end of b. Two frames that the kernel coalesced are not. b need not be valid otherwise.
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

// decapsulate removes the tunnel header.
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

func (e *Egress) node(t *Table, k NodeKey) *Node {
	if e.last.table != t || e.last.key != k {
		e.last.table, e.last.key, e.last.node = t, k, t.nodes[k]
	}
	return e.last.node
}

// fromNode processes a frame with an IP packet from a node. ecn is that of the outer header.
func (e *Egress) fromNode(t *Table, node *Node, frame []byte, ecn uint8, now time.Time) Result {
	ip, b := &e.ip, frame[packet.EthernetHeaderLen:]
	if f := packet.Parse(b, ip); f != packet.FaultNone {
		return drop(reasonOf[f])
	}
	b = b[:ip.Len]
	e.g.see(FromNode, b)
	if ecn != packet.NotECT && !passOnCongestion(b, ip, ecn) {
		return drop(ECN)
	}
	if isNeighbour(b, ip) {
		return e.answerSolicitation(t, node, frame)
	}
	if frame[0]&1 != 0 {
		return drop(Multicast) // a link-layer broadcast is not forwarded, RFC 1812 section 5.3.4
	}

	flows := e.g.flows.Load()
	found := e.lookup.of(t, ip.Src, ip.Dst, (*Table).outward)
	from := t.sender(found.from, flows, node, ip.Src)
	if from == nil && e.isRouterError(t, flows, node, b) {
		from = masqueradedSource
	}
	if from == nil {
		return drop(strangeSource(ip, SpoofedSource))
	}
	longest := 0 // length of the longest fragment; 0 = not reassembled
	if ip.Fragment != packet.Unfragmented && (from == masqueradedSource || found.to == nil && turnsByPort(t, flows, from, ip.Dst)) {
		var reason Reason
		if b, longest, reason = flows.fromNodes.add(&e.Counters, &e.whole, b, ip, now); b == nil {
			return drop(reason)
		}
		e.reassembled = true
	}
	if t.isOwnTunnel(b, ip) {
		return drop(FrameLoop)
	}
	if found.to == nil {
		return e.stay(t, flows, node, from, b, longest, now)
	}
	if ip.TTL <= 1 {
		return e.refuse(t, node, b, TTLExceeded, packet.TimeExceeded, 0, now)
	}
	if reason := from.mayLeave(found.granted); reason != NoReason {
		return e.refuse(t, node, b, reason, packet.Prohibited, 0, now)
	}
	owner, reachable := e.g.ownerBehind(found.to, ip.Dst)
	if !reachable {
		return e.refuse(t, node, b, OwnerDown, packet.HostUnreachable, 0, now)
	}
	r := Result{Verdict: ToTunnel, Owner: owner, Packet: b, Version: ip.Version, Hash: packet.FlowHash(b, ip), Reassembled: e.reassembled}

	how, fits := e.fit(t.tunnelMTU, b, ip, longest)
	if !fits {
		return e.refuse(t, node, b, TooBig, packet.TooBig, t.tunnelMTU, now)
	}

	var as nat.Endpoint
	if from == masqueradedSource {
		var reason Reason
		if as, reason = t.masquerade(flows, b, ip, node, now); reason == NATQuota || reason == NATExhausted {
			return e.refuse(t, node, b, reason, packet.Prohibited, 0, now) // RFC 5508 REQ-8
		} else if reason != NoReason {
			return drop(reason)
		}
	}
	if reason := leave(t, flows, b, ip, &e.quoted, from, as, found.to); reason != NoReason {
		return drop(reason)
	}
	packet.HideSCTPAddresses(b, ip) // the remote cluster maps those in the IP header only
	packet.DecrementTTL(b, ip)
	if mss := t.mss[index(ip.Version)]; mss != 0 {
		packet.ClampMSS(b, ip, mss)
	}
	e.g.see(IntoTunnel, b)
	if how.by == uncut {
		if owner == nil && len(b) <= len(e.hint) && isHint(b, ip) && e.take(&node.budgets.hints, now, hintBudgetInterval, hintBudgetBurst) {
			r.Hint = e.hint[:copy(e.hint[:], b)]
			packet.ClearTTL(r.Hint, ip)
		}
		return r
	}
	r.Pieces = &e.pieces
	if !e.divide(flows, b, ip, how, r.Hash) {
		return drop(UpperHeader)
	}
	return r
}

// sender returns the route of the source of a packet from a node, given what local says about it, or
// nil if the source is spoofed: the address must belong to this cluster and be behind the node that
// sent it; an external address is never a valid source. A source without a node is valid if the
// configuration masquerades it.
func (t *Table) sender(from *route, f *Flows, node *Node, src netip.Addr) *route {
	switch {
	case from != nil && from.node == node && from.internal == nil:
		return from
	case from == nil && f != nil && t.masquerades(src):
		return masqueradedSource
	}
	return nil
}

// mayLeave returns the reason why a local source may not talk to the remote cluster, or NoReason.
// granted is whether a grant contains its address.
func (r *route) mayLeave(granted bool) Reason {
	switch {
	case r.external != nil, r == masqueradedSource:
		return NoReason // the external address was granted when the table was made
	case r.orphan:
		return NoExternalAddress
	case !granted:
		return SourceNotGranted
	}
	return NoReason
}

// leave translates the packet's addresses for the remote cluster: the source by from (pods
// keep theirs, masqueraded sources get as), the destination by remote. A packet quoted by an
// ICMP error travelled in the opposite direction, so its source is translated like the
// destination here and its destination like the source. f may be nil.
func leave(t *Table, f *Flows, b []byte, ip, q *packet.IP, from *route, as nat.Endpoint, remote *nat.Map) Reason {
	if packet.IsICMPError(b, ip) {
		if reason := quoteLeaves(t, f, b, ip, q, &as); reason != NoReason {
			return reason
		}
	}
	if !nat.Rewrite(b, ip, from.external, remote) {
		return UpperHeader
	}
	if from == masqueradedSource && !nat.ReplaceSource(b, ip, as) {
		return UpperHeader
	}
	return NoReason
}

// quoteLeaves translates the quote of an ICMP error. as becomes the external endpoint of the
// flow of the quoted packet, if its destination is masqueraded.
func quoteLeaves(t *Table, f *Flows, b []byte, ip, q *packet.IP, as *nat.Endpoint) Reason {
	quote, reason := readQuote(b, ip, q)
	if reason != NoReason {
		return reason
	}
	sender, ok := t.seen.Lookup(q.Src)
	if !ok {
		return ICMPUnrelated
	}
	if receiver, ok := t.local.Lookup(q.Dst); ok {
		if receiver.mayLeave(t.grants(q.Dst)) != NoReason {
			return ICMPUnrelated // no packet from the remote can have reached that address
		}
		nat.RewriteQuote(b, ip, quote, q, sender, receiver.external)
		return NoReason
	}
	if f == nil || !t.masquerades(q.Dst) {
		return ICMPUnrelated
	}
	outside, ok := f.outsideOf(quote, q)
	if !ok {
		return ICMPUnrelated // RFC 5508 REQ-5
	}
	*as = outside
	nat.RewriteQuote(b, ip, quote, q, sender, nil)
	nat.ReplaceQuotedDestination(b, ip, quote, q, outside)
	return NoReason
}
