package gateway

import (
	"net/netip"
	"time"

	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// stay processes a packet from a node that is not for the remote cluster: for the gateway
// itself, or for an external address of this cluster. longest is as for fit.
func (e *Egress) stay(t *Table, f *Flows, node *Node, from *route, b []byte, longest int, now time.Time) Result {
	ip := &e.ip
	to, ok := t.local.Lookup(ip.Dst)
	switch {
	case ok && to.internal != nil && to.node != nil, ok && to.masquerade && f != nil && !packet.IsEchoRequest(b, ip):
		return e.hairpin(t, f, node, from, to, b, longest, now)
	case ok && to.node == nil && from != masqueradedSource && !to.proxied:
		return e.toGateway(t, node, from, to, b, now)
	}
	return e.refuse(t, node, b, strangeDestination(ip), packet.Prohibited, 0, now)
}

// turnsByPort reports whether a packet that stays in the cluster is hairpinned to or from an endpoint of a masqueraded flow.
func turnsByPort(t *Table, f *Flows, from *route, dst netip.Addr) bool {
	to, ok := t.local.Lookup(dst)
	return ok && f != nil && (to.masquerade || to.internal != nil && from.external == nil)
}

// turn is the translation of a hairpinned packet: on each side by a prefix map, or to the
// endpoint of a masqueraded flow.
type turn struct {
	out, in    *nat.Map
	as, inside nat.Endpoint
	node       *Node
}

// hairpin forwards a packet from a node to an external address of the same cluster. The packet
// gets an external source too, as if it had come from the remote cluster (RFC 4787 REQ-9, RFC
// 5382 REQ-8). Pods have no external address in this cluster, because the remote cluster
// chooses how it maps them; their packets are masqueraded.
func (e *Egress) hairpin(t *Table, f *Flows, node *Node, from, to *route, b []byte, longest int, now time.Time) Result {
	ip := &e.ip
	if ip.TTL <= 1 {
		return e.refuse(t, node, b, TTLExceeded, packet.TimeExceeded, 0, now)
	}
	if reason := from.mayLeave(t.grants(ip.Src)); reason != NoReason {
		return e.refuse(t, node, b, reason, packet.Prohibited, 0, now)
	}
	hash := packet.FlowHash(b, ip)
	how, fits := e.fit(t.overlayMTU, b, ip, longest)
	if !fits {
		return e.refuse(t, node, b, TooBig, packet.TooBig, t.overlayMTU, now)
	}
	find := e.findTurn
	if packet.IsICMPError(b, ip) {
		find = e.turnQuote
	}
	way, reason := find(t, f, node, from, to, b, now)
	switch {
	case reason == NATQuota || reason == NATExhausted:
		return e.refuse(t, node, b, reason, packet.Prohibited, 0, now)
	case reason != NoReason:
		return drop(reason)
	case !nat.Rewrite(b, ip, way.out, way.in),
		way.as.Addr.IsValid() && !nat.ReplaceSource(b, ip, way.as),
		way.inside.Addr.IsValid() && !nat.ReplaceDestination(b, ip, way.inside):
		return drop(UpperHeader)
	}
	packet.DecrementTTL(b, ip)
	e.g.see(IntoNode, b)
	r := Result{Verdict: ToNode, Node: way.node, Packet: b, Version: ip.Version, Hash: hash, ECN: packet.ECN(b, ip.Version), Reassembled: e.reassembled}
	if how.by != uncut {
		r.Pieces = &e.pieces
		if !e.divide(f, b, ip, how, hash) {
			return drop(UpperHeader)
		}
	}
	return r
}

// findTurn returns the translation of a packet that is not an ICMP error. It changes nothing
// but the identification.
func (e *Egress) findTurn(t *Table, f *Flows, node *Node, from, to *route, b []byte, now time.Time) (way turn, reason Reason) {
	ip := &e.ip
	remote, known := nat.Destination(b, ip)
	source, ok := nat.Source(b, ip)
	if way.out = from.external; way.out != nil {
		source.Addr = way.out.Translate(ip.Src)
	} else if f == nil {
		return way, NoExternalAddress
	} else if way.as, reason = t.masquerade(f, b, ip, node, now); reason != NoReason {
		return way, reason
	} else {
		source = way.as
	}
	if way.in, way.node = to.internal, to.node; way.node != nil {
		return way, NoReason
	}
	if !ok || !known {
		return way, NATProtocol
	}
	inside, origin, outcome := f.In(ip.Proto, source, remote, nat.TCPFlags(b, ip), now)
	if reason = natReason[outcome]; reason == NoReason {
		way.in = nil
		way.inside, way.node, reason = t.behind(inside, origin)
	}
	return way, reason
}

// turnQuote returns the translation of an ICMP error about a hairpinned packet, and translates
// the quote (RFC 5508 REQ-7).
func (e *Egress) turnQuote(t *Table, f *Flows, _ *Node, from, _ *route, b []byte, _ time.Time) (way turn, reason Reason) {
	ip, q := &e.ip, &e.quoted
	quote, reason := readQuote(b, ip, q)
	if reason != NoReason {
		return way, reason
	}
	sender, known := t.local.Lookup(q.Src)
	receiver, ok := t.local.Lookup(q.Dst)
	if !ok && f != nil && t.masquerades(q.Dst) {
		receiver, ok = masqueradedSource, true
	}
	if !known || !ok {
		return way, ICMPUnrelated
	}

	// The external destination of the quoted packet, as its sender addressed it.
	external, _ := nat.Destination(quote, q)
	var replaceDst, replaceSrc bool
	if receiver.external != nil {
		external.Addr = receiver.external.Translate(q.Dst)
	} else if f != nil {
		if external, replaceDst = f.outsideOf(quote, q); !replaceDst {
			return way, ICMPUnrelated
		}
	}
	// The source of the quoted packet.
	if way.in, way.node = sender.internal, sender.node; way.node == nil {
		if f == nil {
			return way, ICMPUnrelated
		}
		as, _ := nat.Source(quote, q)
		inside, origin, found := f.Inside(q.Proto, external, as)
		if !found {
			return way, ICMPUnrelated
		}
		way.in, replaceSrc = nil, true
		if way.inside, way.node, reason = t.behind(inside, origin); reason != NoReason {
			return way, reason
		}
	}
	if way.out = from.external; way.out == nil {
		way.as = nat.Endpoint{Addr: t.external[index(ip.Version)]}
	}
	nat.RewriteQuote(b, ip, quote, q, way.in, receiver.external)
	if replaceDst {
		nat.ReplaceQuotedDestination(b, ip, quote, q, external)
	}
	if replaceSrc {
		nat.ReplaceQuotedSource(b, ip, quote, q, way.inside)
	}
	return way, NoReason
}
