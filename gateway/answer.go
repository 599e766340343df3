package gateway

import (
	"cmp"
	"net/netip"
	"time"

	"strait.dev/strait/internal/ratelimit"
	"strait.dev/strait/packet"
)

// refuse drops a packet from a node and answers with an ICMP error, unless no error may be
// sent about the packet or the rate limit is reached.
func (e *Egress) refuse(t *Table, node *Node, b []byte, reason Reason, kind packet.ErrorKind, mtu int, now time.Time) Result {
	from := cmp.Or(t.internal[index(e.ip.Version)], t.external[index(e.ip.Version)])
	return e.refuseFrom(from, node, b, reason, kind, mtu, now)
}

// refuseFrom is refuse with the source of the error.
func (e *Egress) refuseFrom(from netip.Addr, node *Node, b []byte, reason Reason, kind packet.ErrorKind, mtu int, now time.Time) Result {
	all := &node.budgets.errors
	if e.g.traced {
		all = new(ratelimit.Shared)
	}
	if !mayAnswer(&e.Counters, &e.limiter, all, kind, b, &e.ip, from, now) {
		return drop(reason)
	}
	r := drop(reason)
	r.Answer = packet.AppendICMPError(e.answer[:0], kind, mtu, from, b, &e.ip)
	r.Node, r.AnswerHeader = node, node.Header(e.ip.Version)
	return r
}

// refuse drops a packet from the tunnel and answers into the tunnel, from an address that is
// known to the other cluster.
func (i *Ingress) refuse(t *Table, b []byte, reason Reason, kind packet.ErrorKind, mtu int, now time.Time) Result {
	r := drop(reason)
	from := t.external[index(i.ip.Version)]
	if !mayAnswer(&i.Counters, &i.limiter, &i.errors, kind, b, &i.ip, from, now) {
		return r
	}
	r.Answer = packet.AppendICMPError(i.answer[:0], kind, mtu, from, b, &i.ip)
	return r
}

// mayAnswer also permits no Host Unreachable about a SYN-ACK: Linux then forgets the connection,
// which the client may have established already. If the client waits for the server to speak
// first, it would wait forever, even though the host is reachable again a moment later.
func mayAnswer(c *Counters, l *limiter, all *ratelimit.Shared, kind packet.ErrorKind, b []byte, ip *packet.IP, from netip.Addr, now time.Time) bool {
	if !from.IsValid() || !packet.MayAnswer(b, ip) || kind == packet.HostUnreachable && packet.IsSYNACK(b, ip) {
		return false
	}
	if !l.allow(all, ip.Src, now) {
		c.suppressed.Add(1)
		return false
	}
	c.answers.Add(1)
	return true
}

// index returns the index of an IP version in the arrays of a Table.
func index(version uint8) int {
	if version == 6 {
		return 1
	}
	return 0
}

// strangeSource returns the reason to drop a packet whose source is not allowed.
func strangeSource(ip *packet.IP, otherwise Reason) Reason {
	if isMulticast(ip.Dst) {
		return Multicast
	}
	if isMartian(ip.Src) || isMulticast(ip.Src) {
		return Martian
	}
	return otherwise
}

// strangeDestination returns the reason to drop a packet whose destination is unknown.
func strangeDestination(ip *packet.IP) Reason {
	if isMulticast(ip.Dst) {
		return Multicast
	}
	if isMartian(ip.Dst) {
		return Martian
	}
	return DestinationNotGranted
}

func isMulticast(a netip.Addr) bool {
	return a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// isMartian reports whether an address never crosses a router (RFC 1812 section 5.3.7, RFC
// 4291 section 2.5). Such addresses cannot be configured as prefixes, so this only selects the
// drop reason.
func isMartian(a netip.Addr) bool {
	if a.IsUnspecified() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return true
	}
	if a.Is4() {
		b := a.As4()
		return b[0] == 0 || b[0] >= 240
	}
	return false
}
