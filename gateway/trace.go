package gateway

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"strait.dev/strait/geneve"
	"strait.dev/strait/packet"
	"strait.dev/strait/vxlan"
)

// Tracer tells what a table does with packets. It changes no state.
type Tracer struct {
	*Table
	owners *owners
}

// NewTracer returns the tracer of a table without owners.
func NewTracer(t *Table) Tracer { return Tracer{Table: t} }

// Tracer returns the tracer of the current table and owners.
func (g *Gateway) Tracer() Tracer { return Tracer{g.Table(), g.owners.Load()} }

// Trace is what a table does with a packet, and which of its entries decided that.
//
// A copy of the packet goes through a journey created for the trace: the code is that of real
// packets, and the counters, limits and caches of real journeys do not change. One difference
// remains: TCP that a kernel left unsegmented is segmented as that of a flow without a hint,
// because a trace does not know the MSS that the far ends announced.
type Trace struct {
	Verdict Verdict
	Reason  Reason  // if it was dropped
	Node    *Node   // egress: the sender, nil if unknown; ingress: the receiver
	Packet  []byte  // as it leaves, before it is cut; nil if it is dropped
	Pieces  []int   // sizes of its pieces in bytes; nil: it leaves whole
	Answer  []byte  // the ICMP error that is returned, as an IP packet; nil: none
	Entries []Entry // in lookup order
}

// Entry is an entry of the table that decided about a packet.
type Entry struct {
	Role    string       `json:"role"`             // see the constants
	Prefix  netip.Prefix `json:"prefix,omitzero"`  // the longest that contains the address
	Node    string       `json:"node,omitempty"`   // the node behind which the address is; empty: the gateway's or the remote cluster's address
	Other   netip.Prefix `json:"other,omitzero"`   // the prefix on the other side of the gateway
	Of      string       `json:"of,omitempty"`     // owner: see the constants
	Address netip.Addr   `json:"address,omitzero"` // what was looked up
}

// The roles of entries.
const (
	Sender      = "sender"      // the node, by outer source, VNI and encapsulation
	Source      = "source"      // of the packet
	Destination = "destination" // of the packet
	Grant       = "grant"       // of this cluster's address to the other cluster
)

// The owners of entries.
const (
	OfNode    = "node"
	OfGateway = "gateway"
	OfProxy   = "proxy" // pods to which the gateway connects with sockets of its own
	OfRemote  = "remote"
)

// KeyOf returns the key of the node behind which an address lies. If there is none, it returns
// the key of any node, and ok is false.
func (t Tracer) KeyOf(a netip.Addr) (k NodeKey, ok bool) {
	if r, found := t.local.Lookup(a); found && r.node != nil {
		return r.node.Key(), true
	}
	var first *Node
	for _, n := range t.nodes {
		if first == nil || n.Name < first.Name {
			first = n
		}
	}
	if first != nil {
		k = first.Key()
	}
	return k, false
}

// Frame returns the datagram in which a node sends an IP packet to the gateway, in new memory.
func (t Tracer) Frame(k NodeKey, ip []byte) []byte {
	b := make([]byte, EncapLen, EncapLen+len(ip))
	put := geneve.Put
	if k.Encapsulation == VXLAN {
		put = vxlan.Put
	}
	put(b, k.VNI)
	var mac packet.MAC
	if n := t.nodes[k]; n != nil {
		mac = n.mac
	}
	etherType := uint16(packet.EtherTypeIPv4)
	if len(ip) > 0 && ip[0]>>4 == 6 {
		etherType = packet.EtherTypeIPv6
	}
	packet.PutEthernet(b[tunnelLen:], t.mac, mac, etherType)
	return append(b, ip...)
}

// TraceFrame returns what Egress.Frame would do with a datagram from a node. It does not change b.
func (t Tracer) TraceFrame(b []byte, from Outer, now time.Time) Trace {
	e := NewEgress(t.alone())
	vni, frame, reason := decapsulate(b, from.Encapsulation)
	sender := t.nodes[NodeKey{from.Source, vni, from.Encapsulation}]
	r := e.Frame(slices.Clone(b), from, now)
	tr := traceOf(r)
	if tr.Node = sender; sender == nil || reason != NoReason {
		return tr
	}
	tr.Entries = append(tr.Entries, Entry{Role: Sender, Of: OfNode, Node: sender.Name, Address: from.Source})
	var ip packet.IP
	if len(frame) < packet.EthernetHeaderLen || packet.Parse(frame[packet.EthernetHeaderLen:], &ip) != packet.FaultNone {
		return tr
	}
	source, known := t.localEntry(Source, ip.Src)
	tr.add(source, known)
	if m, seen := t.seen.Lookup(ip.Dst); seen {
		tr.Entries = append(tr.Entries, Entry{Role: Destination, Prefix: m.From(), Other: m.To(), Of: OfRemote, Address: ip.Dst})
	}
	if known && !source.Other.IsValid() {
		tr.add(t.grantEntry(ip.Src))
	}
	return tr
}

// TracePacket returns what Ingress.Packet would do with a packet from the tunnel. It changes
// neither b nor any state.
func (t Tracer) TracePacket(b []byte, now time.Time) Trace {
	r := NewIngress(t.alone()).Packet(slices.Clone(b), now)
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

// alone returns a gateway for one packet, with empty flows. Any port may be chosen for a
// masqueraded source.
func (t Tracer) alone() *Gateway {
	g := New(t.Table, rand.NewPCG(0, 0))
	g.traced = true
	g.owners.Store(t.owners)
	if t.masqueraded.Size() > 0 {
		f := NewFlows(FlowsConfig{Flows: 1, FlowsPerSource: 1, Random: rand.NewPCG(0, 0)})
		f.Use(t.outside)
		g.SetFlows(f)
	}
	return g
}

// traceOf copies the result out of the journey's own memory.
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

// localEntry returns the entry for an address of this cluster.
func (t Tracer) localEntry(role string, a netip.Addr) (Entry, bool) {
	prefix, r, ok := t.local.LookupPrefixLPM(single(a))
	if !ok {
		return Entry{}, false
	}
	e := Entry{Role: role, Prefix: prefix, Of: OfGateway, Address: a}
	switch {
	case r.node != nil:
		e.Of, e.Node = OfNode, r.node.Name
	case r.proxied:
		e.Of = OfProxy
	}
	switch {
	case r.external != nil:
		e.Other = r.external.To()
	case r.internal != nil:
		e.Other = r.internal.To()
	}
	return e, true
}

// grantEntry returns the entry that allows an address of this cluster to talk to the other.
func (t Tracer) grantEntry(a netip.Addr) (Entry, bool) {
	prefix, _, ok := t.granted.LookupPrefixLPM(single(a))
	return Entry{Role: Grant, Prefix: prefix, Address: a}, ok
}
