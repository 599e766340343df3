package gateway

import (
	"net/netip"

	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// isRouterError reports whether a packet whose source is unknown is an ICMP error that a router
// behind the node may send about a packet of the remote cluster, for instance "fragmentation
// needed" of a router between node and pod. Its source says nothing about it: any address can
// be a router's. So it is judged by the packet that it quotes, which must come from the remote
// host to which the error goes, and go to a destination behind that node that the remote host may
// reach (RFC 5508 section 4.2). The error leaves with the gateway's external address as source
// (RFC 5508 REQ-5), so no address of another host can be forged in this way.
func (e *Egress) isRouterError(t *Table, f *Flows, node *Node, b []byte) bool {
	ip, q := &e.ip, &e.quoted
	if ip.Fragment != packet.Unfragmented || !packet.IsICMPError(b, ip) || !t.external[index(ip.Version)].IsValid() {
		return false
	}
	quote, reason := readQuote(b, ip, q)
	if reason != NoReason || q.Src != ip.Dst {
		return false
	}
	_, remote := t.seen.Lookup(q.Src)
	return remote && t.mayBeRouter(ip.Src) && t.reached(f, node, quote, q)
}

// mayBeRouter reports whether an address may be that of a router behind a node: one of a host,
// and of neither cluster.
func (t *Table) mayBeRouter(a netip.Addr) bool {
	_, local := t.local.Lookup(a)
	_, remote := t.seen.Lookup(a)
	return !local && !remote && !isMartian(a) && !isMulticast(a)
}

// reached reports whether a quoted packet of the remote cluster can have reached its destination
// behind a node. f may be nil.
func (t *Table) reached(f *Flows, node *Node, quote []byte, q *packet.IP) bool {
	if receiver, ok := t.local.Lookup(q.Dst); ok {
		return receiver.node == node && receiver.mayLeave(t.grants(q.Dst)) == NoReason
	}
	if f == nil || !t.masquerades(q.Dst) {
		return false
	}
	external, ok := f.outsideOf(quote, q)
	if !ok {
		return false
	}
	remote, _ := nat.Source(quote, q)
	_, origin, ok := f.Inside(q.Proto, remote, external)
	return ok && t.origins[origin] == node
}
