package gateway

import (
	"time"

	"strait.dev/strait/nat"
	"strait.dev/strait/packet"
)

// Ingress is the journey from the tunnel to this cluster's nodes:
//
//	validate IP ► may the remote send this? ► may it reach that? ► where is it? ► own host?
//	► TTL ► fits? ► NAT ► TTL-1 ► MSS clamp
//
// Everything is decided before anything is edited, so that an ICMP error quotes
// the packet as the other cluster sent it. Not for concurrent use: one Ingress
// per lane.
type Ingress struct {
	Counters

	g          *Gateway
	limiter    limiter
	ip, quoted packet.IP
	pieces     packet.Pieces
	answer     [packet.MaxICMPErrorLen]byte
}

// NewIngress returns a lane's ingress journey.
func NewIngress(g *Gateway) *Ingress { return &Ingress{g: g} }

// Packet takes one decrypted IP packet. It may edit b. Link-local packets are
// the tunnel's own traffic and go to the host stack as they are; WireGuard has
// checked that they come from this link's peer.
func (i *Ingress) Packet(b []byte, now time.Time) Result {
	t := i.g.Table()
	r := i.packet(t, b, now)
	if r.Verdict == Drop {
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

	seen, ok := t.remote.Lookup(ip.Src)
	if !ok {
		if ip.Src.IsLinkLocalUnicast() && ip.Dst.IsLinkLocalUnicast() && ip.Version == 6 {
			return Result{Verdict: ToHost, Packet: b, Version: ip.Version}
		}
		return drop(strangeSource(ip, SourceNotGranted))
	}
	if _, ok := t.granted.Lookup(ip.Dst); !ok {
		return i.refuse(t, b, strangeDestination(ip), packet.Prohibited, 0, now)
	}
	to, ok := t.local.Lookup(ip.Dst)
	if !ok {
		return i.refuse(t, b, NoNode, packet.HostUnreachable, 0, now)
	}
	if to.node == nil {
		// The host stack sees the remote as the rest of this cluster does.
		if reason := i.enter(t, b, seen, to.internal); reason != NoReason {
			return drop(reason)
		}
		return Result{Verdict: ToHost, Packet: b, Version: ip.Version}
	}
	if ip.TTL <= 1 {
		return i.refuse(t, b, TTLExceeded, packet.TimeExceeded, 0, now)
	}
	if len(b) > t.overlayMTU && ip.DF {
		return i.refuse(t, b, TooBig, packet.TooBig, t.overlayMTU, now)
	}

	if reason := i.enter(t, b, seen, to.internal); reason != NoReason {
		return drop(reason)
	}
	packet.DecrementTTL(b, ip)
	if mss := t.mss[index(ip.Version)]; mss != 0 {
		packet.ClampMSS(b, ip, mss)
	}
	i.g.see(IntoNode, b)
	r := Result{Verdict: ToNode, Node: to.node, Packet: b, Version: ip.Version, Hash: packet.FlowHash(b, ip)}
	i.g.hints.learnMSS(b, ip, r.Hash)
	if len(b) > t.overlayMTU {
		r.Pieces = &i.pieces
		r.Pieces.Fragments(b, ip, t.overlayMTU)
	}
	return r
}

// enter gives the packet its addresses in this cluster: source by seen,
// destination by internal (nil: pods keep theirs). A packet quoted by an ICMP
// error travelled the other way, so its source changes like our destination and
// its destination like our source.
func (i *Ingress) enter(t *Table, b []byte, seen, internal *nat.Map) Reason {
	ip, q := &i.ip, &i.quoted
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
		if _, granted := t.granted.Lookup(q.Src); !ok || !granted {
			return ICMPUnrelated // that one cannot have sent anything there
		}
		nat.RewriteQuote(b, ip, quote, q, sender.internal, receiver)
		i.g.hints.learnTooBig(b, ip, quote, q)
	}
	if !nat.Rewrite(b, ip, seen, internal) {
		return UpperHeader
	}
	return NoReason
}

// readQuote finds the packet that an ICMP error quotes and checks that the error
// came unharmed: an update of a wrong checksum would stay wrong, but what it
// says might have been acted on here (RFC 5508 REQ-3).
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
