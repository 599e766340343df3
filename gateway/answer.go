package gateway

import (
	"net/netip"
	"time"

	"strait.dev/strait/packet"
)

// refuse drops a packet from a node and answers with an ICMP error, unless the
// packet is one that errors must not be sent about or there were too many lately.
func (e *Egress) refuse(t *Table, node *Node, b []byte, reason Reason, kind packet.ErrorKind, mtu int, now time.Time) Result {
	r := drop(reason)
	from := firstValid(t.internal[index(e.ip.Version)], t.external[index(e.ip.Version)])
	if !mayAnswer(&e.Counters, &e.limiter, b, &e.ip, from, now) {
		return r
	}
	r.Answer = packet.AppendICMPError(e.answer[:0], kind, mtu, from, b, &e.ip)
	r.Node, r.AnswerHeader = node, node.Header(e.ip.Version)
	return r
}

// refuse drops a packet from the tunnel and answers into the tunnel, from an
// address that the other cluster can place.
func (i *Ingress) refuse(t *Table, b []byte, reason Reason, kind packet.ErrorKind, mtu int, now time.Time) Result {
	r := drop(reason)
	from := t.external[index(i.ip.Version)]
	if !mayAnswer(&i.Counters, &i.limiter, b, &i.ip, from, now) {
		return r
	}
	r.Answer = packet.AppendICMPError(i.answer[:0], kind, mtu, from, b, &i.ip)
	return r
}

func mayAnswer(c *Counters, l *limiter, b []byte, ip *packet.IP, from netip.Addr, now time.Time) bool {
	if !from.IsValid() || !packet.MayAnswer(b, ip) {
		return false
	}
	if !l.allow(ip.Src, now) {
		c.suppressed.Add(1)
		return false
	}
	c.answers.Add(1)
	return true
}

func firstValid(a, b netip.Addr) netip.Addr {
	if a.IsValid() {
		return a
	}
	return b
}

// index is the index of an IP version in the arrays of a Table.
func index(version uint8) int {
	if version == 6 {
		return 1
	}
	return 0
}

// strangeSource names the drop of a packet whose source nobody vouches for.
func strangeSource(ip *packet.IP, otherwise Reason) Reason {
	if isMulticast(ip.Dst) {
		return Multicast
	}
	if isMartian(ip.Src) || isMulticast(ip.Src) {
		return Martian
	}
	return otherwise
}

// strangeDestination names the drop of a packet that goes nowhere we know.
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

// isMartian: addresses that never cross a router (RFC 1812 section 5.3.7,
// RFC 4291 section 2.5). Nothing can configure them as prefixes either, so this
// only gives the drop its name.
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
