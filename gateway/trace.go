package gateway

import (
	"net/netip"
	"slices"
	"time"

	"strait.dev/strait/geneve"
	"strait.dev/strait/packet"
	"strait.dev/strait/vxlan"
)

// Trace is what a table does with a packet, and which of its entries decided that.
//
// It is found by sending a copy through a journey made for nothing else: the code is
// that of real packets, and what real journeys count, limit and remember does not
// change. Only TCP that a kernel left uncut is cut by the MTU alone, since a trace
// knows nothing of what the far ends of flows announced.
type Trace struct {
	Verdict Verdict
	Reason  Reason  // when it was dropped
	Node    *Node   // egress: the one that sent it, nil if none is known so; ingress: the one that gets it
	Packet  []byte  // as it leaves, whole; nil if it does not
	Pieces  []int   // the sizes of the pieces that it leaves in, bytes; nil: it leaves whole
	Answer  []byte  // the ICMP error that goes back, as an IP packet; nil: none does
	Entries []Entry // in the order in which they are looked up
}

// Entry is an entry of the table that decided about a packet.
type Entry struct {
	Role    string       `json:"role"`             // see the constants
	Prefix  netip.Prefix `json:"prefix,omitzero"`  // the longest that holds the address
	Node    string       `json:"node,omitempty"`   // that the address is behind; empty: the gateway's own, or the remote cluster's
	Other   netip.Prefix `json:"other,omitzero"`   // what the prefix is on the other side of the gateway
	Of      string       `json:"of,omitempty"`     // whose: see the constants
	Address netip.Addr   `json:"address,omitzero"` // what was looked up
}

// The roles of entries.
const (
	Sender      = "sender"      // the node, by outer source, VNI and encapsulation
	Source      = "source"      // of the packet
	Destination = "destination" // of the packet
	Grant       = "grant"       // of this cluster's address to the other cluster
)

// Whose entries are.
const (
	OfNode    = "node"
	OfGateway = "gateway"
	OfRemote  = "remote"
)

// Outer is what a gateway knows a node by.
type Outer struct {
	Source        netip.Addr
	VNI           uint32
	Encapsulation Encapsulation
}

// OuterOf is that of the node behind which an address lies. ok is false where there is
// none, and then it is that of any node.
func (t *Table) OuterOf(a netip.Addr) (o Outer, ok bool) {
	if r, found := t.local.Lookup(a); found && r.node != nil {
		return r.node.outer(), true
	}
	var first *Node
	for _, n := range t.nodes {
		if first == nil || n.Name < first.Name {
			first = n
		}
	}
	if first != nil {
		o = first.outer()
	}
	return o, false
}

func (n *Node) outer() Outer { return Outer{n.Underlay, n.VNI, n.Encapsulation} }

// Frame is the datagram in which a node sends an IP packet to the gateway, in new
// memory.
func (t *Table) Frame(o Outer, ip []byte) []byte {
	b := make([]byte, EncapLen, EncapLen+len(ip))
	put := geneve.Put
	if o.Encapsulation == VXLAN {
		put = vxlan.Put
	}
	put(b, o.VNI)
	var mac packet.MAC
	if n := t.nodes[nodeKey{o.Source, o.VNI, o.Encapsulation}]; n != nil {
		mac = n.mac
	}
	etherType := uint16(packet.EtherTypeIPv4)
	if len(ip) > 0 && ip[0]>>4 == 6 {
		etherType = packet.EtherTypeIPv6
	}
	packet.PutEthernet(b[tunnelLen:], t.mac, mac, etherType)
	return append(b, ip...)
}

// TraceFrame says what becomes of a datagram from a node, as Egress.Frame would do
// with it. It changes neither b nor anything else.
func (t *Table) TraceFrame(b []byte, source netip.Addr, encapsulation Encapsulation, now time.Time) Trace {
	e := NewEgress(New(t))
	vni, frame, reason := decapsulate(b, encapsulation)
	sender := t.nodes[nodeKey{source, vni, encapsulation}]
	r := e.Frame(slices.Clone(b), source, encapsulation, now)
	tr := traceOf(r)
	if tr.Node = sender; sender == nil || reason != NoReason {
		return tr
	}
	tr.Entries = append(tr.Entries, Entry{Role: Sender, Of: OfNode, Node: sender.Name, Address: source})
	var ip packet.IP
	if len(frame) < packet.EthernetHeaderLen || packet.Parse(frame[packet.EthernetHeaderLen:], &ip) != packet.FaultNone {
		return tr
	}
	from, known := t.localEntry(Source, ip.Src)
	tr.add(from, known)
	if m, seen := t.seen.Lookup(ip.Dst); seen {
		tr.Entries = append(tr.Entries, Entry{Role: Destination, Prefix: m.From(), Other: m.To(), Of: OfRemote, Address: ip.Dst})
	}
	if known && !from.Other.IsValid() {
		tr.add(t.grantEntry(ip.Src))
	}
	return tr
}

// TracePacket says what becomes of a packet from the tunnel, as Ingress.Packet would do
// with it. It changes neither b nor anything else.
func (t *Table) TracePacket(b []byte, now time.Time) Trace {
	r := NewIngress(New(t)).Packet(slices.Clone(b), now)
	tr := traceOf(r)
	tr.Node = r.Node
	var ip packet.IP
	if packet.Parse(b, &ip) != packet.FaultNone {
		return tr
	}
	if m, ok := t.remote.Lookup(ip.Src); ok {
		tr.Entries = append(tr.Entries, Entry{Role: Source, Prefix: m.From(), Other: m.To(), Of: OfRemote, Address: ip.Src})
	}
	tr.add(t.grantEntry(ip.Dst))
	tr.add(t.localEntry(Destination, ip.Dst))
	return tr
}

// traceOf copies what a journey left in memory that is its own.
func traceOf(r Result) Trace {
	tr := Trace{Verdict: r.Verdict, Reason: r.Reason, Packet: slices.Clone(r.Packet), Answer: slices.Clone(r.Answer)}
	if r.Pieces != nil {
		memory := make([]byte, packet.MaxLen)
		for r.Pieces.Left() {
			tr.Pieces = append(tr.Pieces, r.Pieces.Next(memory))
		}
	}
	return tr
}

func (tr *Trace) add(e Entry, found bool) {
	if found {
		tr.Entries = append(tr.Entries, e)
	}
}

// localEntry is what lies behind an address on this side.
func (t *Table) localEntry(role string, a netip.Addr) (Entry, bool) {
	prefix, r, ok := t.local.LookupPrefixLPM(single(a))
	if !ok {
		return Entry{}, false
	}
	e := Entry{Role: role, Prefix: prefix, Of: OfGateway, Address: a}
	if r.node != nil {
		e.Of, e.Node = OfNode, r.node.Name
	}
	switch {
	case r.external != nil:
		e.Other = r.external.To()
	case r.internal != nil:
		e.Other = r.internal.To()
	}
	return e, true
}

// grantEntry is what allows an address of this side to talk to the other cluster.
func (t *Table) grantEntry(a netip.Addr) (Entry, bool) {
	prefix, _, ok := t.granted.LookupPrefixLPM(single(a))
	return Entry{Role: Grant, Prefix: prefix, Address: a}, ok
}

// OverlayMTU is the largest IP packet that the leg to the nodes carries.
func (t *Table) OverlayMTU() int { return t.overlayMTU }

// MSS is what SYNs of an IP version are clamped to; 0 = they are not.
func (t *Table) MSS(version uint8) uint16 { return t.mss[index(version)] }
