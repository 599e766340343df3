package gateway

import (
	"time"

	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// masquerade returns the external endpoint for a packet of a masqueraded source. For an ICMP
// error it is the gateway's address; the flow of the quoted packet is looked up later. The
// packet is unchanged, except for its identification.
func (t *Table) masquerade(f *Flows, b []byte, ip *packet.IP, node *Node, now time.Time) (as nat.Endpoint, reason Reason) {
	if packet.IsICMPError(b, ip) {
		return nat.Endpoint{Addr: t.external[index(ip.Version)]}, NoReason
	}
	inside, ok := nat.Source(b, ip)
	remote, known := nat.Destination(b, ip)
	if !ok || !known {
		return as, NATProtocol
	}
	as, outcome := f.Out(ip.Proto, inside, remote, node.VNI, nat.TCPFlags(b, ip), now)
	if outcome == nat.Translated && ip.Version == 4 {
		packet.SetID(b, uint16(f.ids.Add(1)))
	}
	return as, natReason[outcome]
}

var natReason = [...]Reason{
	nat.Translated:  NoReason,
	nat.Exhausted:   NATExhausted,
	nat.Quota:       NATQuota,
	nat.Unknown:     NATNoMapping,
	nat.Unsupported: NATProtocol,
}

// outsideOf returns the external endpoint of the flow of a quoted packet that went to its
// inside endpoint.
func (f *Flows) outsideOf(quote []byte, q *packet.IP) (nat.Endpoint, bool) {
	inside, ok := nat.Destination(quote, q)
	remote, known := nat.Source(quote, q)
	if !ok || !known {
		return nat.Endpoint{}, false
	}
	return f.Outside(q.Proto, inside, remote)
}

// unmasquerade returns the inside endpoint and the node for a packet from the remote cluster to
// the gateway's external address. No node and no reason means the gateway itself.
func (i *Ingress) unmasquerade(t *Table, f *Flows, b []byte, seen *nat.Map, now time.Time) (inside nat.Endpoint, node *Node, reason Reason) {
	ip := &i.ip
	if packet.IsICMPError(b, ip) {
		return i.unmasqueradeQuote(t, f, b)
	}
	external, ok := nat.Destination(b, ip)
	remote, known := nat.Source(b, ip)
	if !ok || !known || packet.IsEchoRequest(b, ip) {
		return inside, nil, NoReason
	}
	remote.Addr = seen.Translate(remote.Addr)
	inside, origin, outcome := f.In(ip.Proto, remote, external, nat.TCPFlags(b, ip), now)
	if outcome != nat.Translated {
		return inside, nil, natReason[outcome]
	}
	return t.behind(inside, origin)
}

// unmasqueradeQuote is unmasquerade for an ICMP error: it goes to the source of the packet that
// it quotes.
func (i *Ingress) unmasqueradeQuote(t *Table, f *Flows, b []byte) (inside nat.Endpoint, node *Node, reason Reason) {
	q := &i.quoted
	quote, reason := readQuote(b, &i.ip, q)
	if reason != NoReason {
		return inside, nil, reason
	}
	receiver, ok := t.remote.Lookup(q.Dst)
	if !ok {
		return inside, nil, ICMPUnrelated
	}
	external, ok := nat.Source(quote, q)
	remote, known := nat.Destination(quote, q)
	if !ok || !known {
		return inside, nil, NoReason
	}
	remote.Addr = receiver.Translate(remote.Addr)
	inside, origin, ok := f.Inside(q.Proto, remote, external)
	if !ok {
		return inside, nil, NoReason // about a packet of the gateway itself; else the host drops it, RFC 5508 REQ-4
	}
	return t.behind(inside, origin)
}

// behind returns the node that the last packet of a flow came from.
func (t *Table) behind(inside nat.Endpoint, origin uint32) (nat.Endpoint, *Node, Reason) {
	node := t.origins[origin]
	if node == nil {
		return inside, nil, NoNode
	}
	return inside, node, NoReason
}
