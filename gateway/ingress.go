package gateway

import (
	"time"

	"strait.dev/strait/internal/ratelimit"
	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// Ingress is the journey from the tunnel to this cluster's nodes:
//
//	validate IP ► source granted? ► destination granted? ► route ► copy of a hint? ► own host?
//	► TTL ► MTU ► NAT ► TTL-1 ► MSS clamp
//
// All decisions come before all edits, so that an ICMP error quotes the packet as the other
// cluster sent it. Not for concurrent use: one Ingress per link.
type Ingress struct {
	Counters

	g          *Gateway
	limiter    limiter
	errors     ratelimit.Shared // into the tunnel
	lookup     lookup[inward]
	ip, quoted packet.IP
	pieces     packet.Pieces
	whole      []byte // buffer for a reassembled datagram; nil before the first
	answer     [packet.MaxICMPErrorLen]byte
}

// NewIngress returns the ingress journey of a link.
func NewIngress(g *Gateway) *Ingress { return &Ingress{g: g} }

// Packet processes one decrypted IP packet. It may edit b. Link-local packets are the tunnel's
// own traffic and go to the host stack unchanged; WireGuard has checked that they come from
// this link's peer.
func (i *Ingress) Packet(b []byte, now time.Time) Result {
	t := i.g.Table()
	r := i.packet(t, b, now)
	if r.Reason != NoReason {
		i.CountDropped(r.Reason, 1)
	}
	return r
}

func (i *Ingress) packet(t *Table, b []byte, now time.Time) Result {
	ip := &i.ip
	if f := packet.Parse(b, ip); f != packet.FaultNone {
		return drop(reasonOf[f])
	}
	b = b[:ip.Len]
	i.g.see(FromTunnel, b)

	found := i.lookup.of(t, ip.Src, ip.Dst, (*Table).inward)
	seen, to := found.from, found.to
	if seen == nil {
		if ip.Src.IsLinkLocalUnicast() && ip.Dst.IsLinkLocalUnicast() && ip.Version == 6 {
			return Result{Verdict: ToHost, Packet: b, Version: ip.Version}
		}
		return drop(strangeSource(ip, SourceNotGranted))
	}
	if !found.granted {
		return i.refuse(t, b, strangeDestination(ip), packet.Prohibited, 0, now)
	}
	if to == nil {
		return i.refuse(t, b, NoNode, packet.HostUnreachable, 0, now)
	}
	if to.inside {
		// Even if a grant contains the address: replies would have the external address.
		return i.refuse(t, b, DestinationNotGranted, packet.Prohibited, 0, now)
	}
	if ip.TTL == 0 && isHint(b, ip) {
		return i.readHint(t, b, seen, to)
	}
	node, longest, reassembled := to.node, 0, false
	var inside nat.Endpoint // the inside endpoint of a masqueraded flow
	if flows := i.g.flows.Load(); to.masquerade && flows != nil {
		var reason Reason
		if ip.Fragment != packet.Unfragmented {
			if b, longest, reason = flows.fromTunnel.add(&i.Counters, &i.whole, b, ip, now); b == nil {
				return drop(reason)
			}
			reassembled = true
		}
		if inside, node, reason = i.unmasquerade(t, flows, b, seen, now); reason != NoReason {
			return drop(reason) // silently, RFC 5382 REQ-4
		}
	}
	if node == nil {
		// The host stack sees the remote cluster under the same addresses as this cluster.
		if reason := i.enter(t, b, seen, to.internal, nat.Endpoint{}); reason != NoReason {
			return drop(reason)
		}
		return Result{Verdict: ToHost, Packet: b, Version: ip.Version, Reassembled: reassembled}
	}
	if ip.TTL <= 1 {
		return i.refuse(t, b, TTLExceeded, packet.TimeExceeded, 0, now)
	}
	if longest == 0 {
		longest = len(b)
	}
	if longest > t.overlayMTU && ip.DF {
		return i.refuse(t, b, TooBig, packet.TooBig, t.overlayMTU, now)
	}

	if reason := i.enter(t, b, seen, to.internal, inside); reason != NoReason {
		return drop(reason)
	}
	packet.DecrementTTL(b, ip)
	hash := i.learn(t, b)
	i.g.see(IntoNode, b)
	r := Result{Verdict: ToNode, Node: node, Packet: b, Version: ip.Version, Hash: hash, ECN: packet.ECN(b, ip.Version), Reassembled: reassembled}
	if len(b) > t.overlayMTU {
		r.Pieces = &i.pieces
		if !i.g.flows.Load().cut(r.Pieces, b, ip, min(longest, t.overlayMTU)) {
			return drop(UpperHeader)
		}
	}
	return r
}

// learn clamps the MSS of a translated packet, and keeps what a SYN announces. It returns the hash of the flow.
func (i *Ingress) learn(t *Table, b []byte) uint32 {
	ip := &i.ip
	if mss := t.mss[index(ip.Version)]; mss != 0 {
		packet.ClampMSS(b, ip, mss)
	}
	i.g.hints.learnSYN(b, ip)
	return packet.FlowHash(b, ip)
}

// readHint learns from a copy of a packet that another gateway forwards (Result.Hint). It says no more than that packet
// could. The host of a gateway must not get it: proxied pods are at the hosts of all gateways, and each would accept
// the connection.
func (i *Ingress) readHint(t *Table, b []byte, seen *nat.Map, to *route) Result {
	if to.node == nil || to.masquerade {
		return Result{} // nothing to learn
	}
	if reason := i.enter(t, b, seen, to.internal, nat.Endpoint{}); reason != NoReason {
		return drop(reason)
	}
	i.learn(t, b)
	return Result{} // read, not dropped for a reason
}

// enter translates the packet's addresses for this cluster: the source by seen, the
// destination by internal (nil: pods keep theirs) or to the inside endpoint of a masqueraded
// flow, if inside is valid. A packet quoted by an ICMP error travelled in the opposite
// direction, so its source is translated like the destination here and its destination like
// the source.
func (i *Ingress) enter(t *Table, b []byte, seen, internal *nat.Map, inside nat.Endpoint) Reason {
	ip, q, masqueraded := &i.ip, &i.quoted, inside.Addr.IsValid()
	if packet.IsICMPError(b, ip) {
		quote, reason := readQuote(b, ip, q)
		if reason != NoReason {
			return reason
		}
		receiver, ok := t.remote.Lookup(q.Dst)
		if !ok {
			return ICMPUnrelated
		}
		sender, ok := t.local.Lookup(q.Src)
		if !ok || !t.grants(q.Src) {
			return ICMPUnrelated // that address cannot have sent to the remote
		}
		if masqueraded {
			nat.RewriteQuote(b, ip, quote, q, nil, receiver)
			nat.ReplaceQuotedSource(b, ip, quote, q, inside)
		} else {
			nat.RewriteQuote(b, ip, quote, q, sender.internal, receiver)
		}
		i.g.hints.learnTooBig(b, ip, quote, q)
	}
	if masqueraded {
		internal = nil
	}
	if !nat.Rewrite(b, ip, seen, internal) || masqueraded && !nat.ReplaceDestination(b, ip, inside) {
		return UpperHeader
	}
	return NoReason
}

// readQuote returns the packet that an ICMP error quotes. It verifies the checksum of the error
// first: an incremental update keeps a wrong checksum wrong, but the gateway would already have
// used the contents (RFC 5508 REQ-3).
func readQuote(b []byte, ip *packet.IP, q *packet.IP) ([]byte, Reason) {
	if !packet.ICMPChecksumOK(b, ip) {
		return nil, ICMPChecksum
	}
	quote, ok := packet.ParseQuote(b, ip, q)
	if !ok {
		return nil, ICMPQuote
	}
	return quote, NoReason
}
