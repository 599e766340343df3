package gateway_test

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"strait.dev/strait/gateway"
)

// checkTrace compares a trace with what the real journey did, and what of the real one
// the packet was sent through moved.
func checkTrace(t *testing.T, tr gateway.Trace, r gateway.Result) {
	t.Helper()
	if tr.Verdict != r.Verdict || tr.Reason != r.Reason || !bytes.Equal(tr.Answer, r.Answer) {
		t.Fatalf("trace: %d %q, answer % x\nreal:  %d %q, answer % x", tr.Verdict, tr.Reason, tr.Answer, r.Verdict, r.Reason, r.Answer)
	}
	if !bytes.Equal(tr.Packet, r.Packet) {
		t.Fatalf("trace % x\nreal  % x", tr.Packet, r.Packet)
	}
	var sizes []int
	for r.Pieces != nil && r.Pieces.Left() {
		sizes = append(sizes, r.Pieces.Next(make([]byte, 65535)))
	}
	if !slices.Equal(tr.Pieces, sizes) {
		t.Fatalf("trace has pieces of %v, real ones are %v", tr.Pieces, sizes)
	}
}

// entryOf is the entry with a role; the zero Entry if there is none.
func entryOf(tr gateway.Trace, role string) (e gateway.Entry) {
	for _, e = range tr.Entries {
		if e.Role == role {
			return e
		}
	}
	return gateway.Entry{}
}

// checkEntries holds that what a trace names explains what came of the packet.
func checkEntries(t *testing.T, tr gateway.Trace, sent []byte) {
	t.Helper()
	for _, e := range tr.Entries {
		if e.Prefix.IsValid() && !e.Prefix.Contains(e.Address) {
			t.Fatalf("%+v does not hold its address", e)
		}
	}
	source, destination := entryOf(tr, gateway.Source), entryOf(tr, gateway.Destination)
	if tr.Verdict != gateway.ToTunnel && tr.Verdict != gateway.ToNode {
		return
	}
	before, after := read(t, sent), read(t, tr.Packet)
	for _, c := range []struct {
		e             gateway.Entry
		before, after netip.Addr
	}{{source, before.src, after.src}, {destination, before.dst, after.dst}} {
		where := c.e.Prefix
		if c.e.Other.IsValid() {
			where = c.e.Other
		}
		if c.e.Address != c.before || !where.Contains(c.after) {
			t.Fatalf("%v became %v, and the entry is %+v", c.before, c.after, c.e)
		}
	}
	if tr.Verdict == gateway.ToNode && destination.Node != tr.Node.Name || tr.Verdict == gateway.ToTunnel && source.Node != tr.Node.Name {
		t.Fatalf("node %s, entries %+v", tr.Node.Name, tr.Entries)
	}
}

func FuzzTraceOfFramesEqualsTheRealJourney(f *testing.F) {
	for _, w := range families {
		for _, j := range journeys(w) {
			for _, b := range everyKind(flow{src: j.src, dst: j.dst}) {
				f.Add(node1A.frame(b), uint8(0))
			}
		}
		f.Add(node2A.frame(flow{src: w.otherPodA, dst: w.seenPodB}.udp(nil)), uint8(1))
		f.Add(node1A.frame(flow{src: w.ungrantedPodA, dst: w.seenPodB}.udp(nil)), uint8(0))
		f.Add(node1A.frame(flow{src: w.podA, dst: w.foreign}.echo(nil)), uint8(2))
	}
	f.Add(arpRequest(node1A, v4.node, v4.gateway), uint8(0))
	f.Add([]byte{0, 0, 0x65}, uint8(0))
	table := tableOf(f, configured(f, clusterA), mtus)
	now := start
	f.Fuzz(func(t *testing.T, datagram []byte, from uint8) {
		now = now.Add(time.Second) // the budgets of nodes are full again
		w := []wire{node1A, node2A, node1B}[from%3]
		kept := bytes.Clone(datagram)
		tr := gateway.NewTracer(table).TraceFrame(datagram, w.outer(), now)
		if !bytes.Equal(datagram, kept) {
			t.Fatal("the trace has changed the packet")
		}
		checkTrace(t, tr, gateway.NewEgress(gateway.New(table, rand.NewPCG(1, 2))).Frame(kept, w.outer(), now))
		if tr.Packet != nil {
			checkEntries(t, tr, datagram[len(datagram)-innerLen(datagram, w.encapsulation):])
		}
	})
}

// innerLen is the length of a datagram behind its tunnel and Ethernet headers.
func innerLen(datagram []byte, e gateway.Encapsulation) int {
	options := 0
	if e == gateway.Geneve {
		options = int(datagram[0]&0x3f) * 4
	}
	return len(datagram) - gateway.EncapLen - options
}

func FuzzTraceOfPacketsEqualsTheRealJourney(f *testing.F) {
	for _, w := range families {
		for _, j := range journeys(w) {
			for _, b := range everyKind(flow{src: j.tunnelSrc, dst: j.tunnelDst}.back()) {
				f.Add(b)
			}
		}
		f.Add(flow{src: w.podB, dst: w.absentPod}.echo(nil))
		f.Add(flow{src: w.foreign, dst: w.podA}.echo(nil))
	}
	table := tableOf(f, configured(f, clusterA), mtus)
	f.Fuzz(func(t *testing.T, b []byte) {
		kept := bytes.Clone(b)
		tr := gateway.NewTracer(table).TracePacket(b, start)
		if !bytes.Equal(b, kept) {
			t.Fatal("the trace has changed the packet")
		}
		checkTrace(t, tr, gateway.NewIngress(gateway.New(table, rand.NewPCG(1, 2))).Packet(kept, start))
		if tr.Packet != nil {
			checkEntries(t, tr, b)
		}
	})
}

// The same with tables of every shape, and packets between any two of their addresses.
func TestTracesEqualTheRealJourneysInRandomTables(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(61, 91))
	forwarded, now := 0, start
	for range 20 {
		c := large(1+r.IntN(50), 20+r.IntN(500))
		table := tableOf(t, c, gateway.MTUs{Overlay: 600 + r.IntN(900), Tunnel: 600 + r.IntN(800)})
		for range 500 {
			now = now.Add(time.Second) // the budgets of nodes are full again
			pod, seen, remote := number("10.0.0.0", r.IntN(9000)).String(), number("172.17.0.0", r.IntN(70_000)).String(), number("172.16.0.0", r.IntN(70_000)).String()
			n := c.Overlay.Nodes[r.IntN(len(c.Overlay.Nodes))]
			w := wire{underlay: n.Underlay, vni: n.VNI}
			if o, known := gateway.NewTracer(table).KeyOf(addr(pod)); known && r.IntN(2) == 0 {
				w = wire{underlay: o.Underlay, vni: o.VNI}
			}
			out := flow{src: pod, dst: seen, ttl: uint8(1 + r.IntN(64)), df: r.IntN(2) == 0}.udp(counting(r.IntN(1500)))
			tr := gateway.NewTracer(table).TraceFrame(w.frame(out), w.outer(), now)
			checkTrace(t, tr, gateway.NewEgress(gateway.New(table, rand.NewPCG(1, 2))).Frame(w.frame(out), w.outer(), now))
			checkEntries(t, tr, out)
			in := flow{src: remote, dst: pod, ttl: uint8(1 + r.IntN(64)), df: r.IntN(2) == 0}.udp(counting(r.IntN(1500)))
			back := gateway.NewTracer(table).TracePacket(in, start)
			checkTrace(t, back, gateway.NewIngress(gateway.New(table, rand.NewPCG(1, 2))).Packet(slices.Clone(in), start))
			checkEntries(t, back, in)
			if tr.Verdict == gateway.ToTunnel && back.Verdict == gateway.ToNode {
				forwarded++
			}
		}
	}
	if forwarded < 500 {
		t.Errorf("only %d of them went both ways", forwarded)
	}
}

func TestATraceMovesNothingOfTheRealGateway(t *testing.T) {
	t.Parallel()
	s := newA(t)
	s.SetTap(func(gateway.Stage, []byte) { t.Error("the tap saw a traced packet") })
	table := s.Table()
	last := flow{src: v4.podA, dst: v4.seenPodB, ttl: 1}
	for range 1000 { // many more than errors may be sent about
		if tr := gateway.NewTracer(table).TraceFrame(node1A.frame(last.udp(nil)), node1A.outer(), start); tr.Reason != gateway.TTLExceeded || tr.Answer == nil {
			t.Fatalf("%q, answer % x", tr.Reason, tr.Answer)
		}
		gateway.NewTracer(table).TracePacket(flow{src: v4.podB, dst: v4.podA}.tcp(syn, mss(600), nil), start)
	}
	s.SetTap(nil)
	for what, c := range map[string]*gateway.Counters{"egress": &s.egress.Counters, "ingress": &s.ingress.Counters} {
		packets, _ := c.Forwarded()
		sent, suppressed := c.Answers()
		if packets != 0 || sent != 0 || suppressed != 0 || len(dropped(c)) != 0 {
			t.Errorf("%s: %d packets, %d answers, %d suppressed, dropped %v", what, packets, sent, suppressed, dropped(c))
		}
	}
	if r := s.fromNode(last.udp(nil)); r.Answer == nil {
		t.Error("the limit of errors counts those of traces")
	}
	// The MSS of the traced SYN is no hint for real flows.
	r := s.fromNode(partial(flow{src: v4.podA, dst: v4.seenPodB, from: 443, to: 12345}).tcp(ack, nil, counting(3000)))
	if all := pieces(t, r, tunnelMTU); len(all[0]) != everyPath {
		t.Errorf("the first segment has %d bytes", len(all[0]))
	}
}

// What goes to an address of a remote gateway depends on the link to that.
func TestATraceKnowsWhichRemoteGatewaysCannotBeReached(t *testing.T) {
	t.Parallel()
	a := newA(t)
	frame := node1A.frame(flow{src: v4.podA, dst: v4.seenPodB}.udp(nil))
	a.SetOwners(gateway.Owners{addr(v4.podB): nil})
	if tr := a.Tracer().TraceFrame(frame, node1A.outer(), start); tr.Reason != gateway.OwnerDown {
		t.Errorf("without a link: %q", tr.Reason)
	}
	a.SetOwners(gateway.Owners{addr(v4.podB): exit{}})
	if tr := a.Tracer().TraceFrame(frame, node1A.outer(), start); tr.Verdict != gateway.ToTunnel {
		t.Errorf("with a link: %q", tr.Reason)
	}
}

func TestATraceNamesTheEntriesThatDecided(t *testing.T) {
	t.Parallel()
	table := tableOf(t, configured(t, clusterA), mtus)
	prefix := netip.MustParsePrefix
	egress := func(src, dst string) gateway.Trace {
		o, _ := gateway.NewTracer(table).KeyOf(addr(src))
		return gateway.NewTracer(table).TraceFrame(gateway.NewTracer(table).Frame(o, flow{src: src, dst: dst}.udp(nil)), o.Outer(), start)
	}
	for _, c := range []struct {
		name string
		tr   gateway.Trace
		want []gateway.Entry
	}{
		{"a pod of the other cluster", egress(v4.podA, v4.seenPodB), []gateway.Entry{
			{Role: gateway.Sender, Of: gateway.OfNode, Node: "node-1", Address: node1A.underlay},
			{Role: gateway.Source, Prefix: prefix("10.0.1.0/24"), Of: gateway.OfNode, Node: "node-1", Address: addr(v4.podA)},
			{Role: gateway.Destination, Prefix: prefix("10.71.0.0/16"), Other: prefix("10.0.0.0/16"), Of: gateway.OfRemote, Address: addr(v4.seenPodB)},
			{Role: gateway.Grant, Prefix: prefix("10.0.0.0/16"), Address: addr(v4.podA)}}},
		{"from a node", egress(v4.node, v4.seenPodB), []gateway.Entry{
			{Role: gateway.Sender, Of: gateway.OfNode, Node: "node-1", Address: node1A.underlay},
			{Role: gateway.Source, Prefix: prefix("10.80.0.11/32"), Other: prefix("10.70.0.11/32"), Of: gateway.OfNode, Node: "node-1", Address: addr(v4.node)},
			{Role: gateway.Destination, Prefix: prefix("10.71.0.0/16"), Other: prefix("10.0.0.0/16"), Of: gateway.OfRemote, Address: addr(v4.seenPodB)}}},
		{"a pod that is not granted", egress(v4.ungrantedPodA, v4.seenPodB), []gateway.Entry{
			{Role: gateway.Sender, Of: gateway.OfNode, Node: "node-1", Address: node1A.underlay},
			{Role: gateway.Source, Prefix: prefix("10.9.1.0/24"), Of: gateway.OfNode, Node: "node-1", Address: addr(v4.ungrantedPodA)},
			{Role: gateway.Destination, Prefix: prefix("10.71.0.0/16"), Other: prefix("10.0.0.0/16"), Of: gateway.OfRemote, Address: addr(v4.seenPodB)}}},
		{"to a node", gateway.NewTracer(table).TracePacket(flow{src: v4.podB, dst: v4.nodeOut}.udp(nil), start), []gateway.Entry{
			{Role: gateway.Source, Prefix: prefix("10.0.0.0/16"), Other: prefix("10.71.0.0/16"), Of: gateway.OfRemote, Address: addr(v4.podB)},
			{Role: gateway.Grant, Prefix: prefix("10.70.0.0/16"), Address: addr(v4.nodeOut)},
			{Role: gateway.Destination, Prefix: prefix("10.70.0.11/32"), Other: prefix("10.80.0.11/32"), Of: gateway.OfNode, Node: "node-1", Address: addr(v4.nodeOut)}}},
		{"to a pod that is nowhere", gateway.NewTracer(table).TracePacket(flow{src: v4.podB, dst: v4.absentPod}.udp(nil), start), []gateway.Entry{
			{Role: gateway.Source, Prefix: prefix("10.0.0.0/16"), Other: prefix("10.71.0.0/16"), Of: gateway.OfRemote, Address: addr(v4.podB)},
			{Role: gateway.Grant, Prefix: prefix("10.0.0.0/16"), Address: addr(v4.absentPod)}}},
		{"from a foreign source", gateway.NewTracer(table).TracePacket(flow{src: v4.foreign, dst: v4.podA}.udp(nil), start), []gateway.Entry{
			{Role: gateway.Grant, Prefix: prefix("10.0.0.0/16"), Address: addr(v4.podA)},
			{Role: gateway.Destination, Prefix: prefix("10.0.1.0/24"), Of: gateway.OfNode, Node: "node-1", Address: addr(v4.podA)}}},
	} {
		if !slices.Equal(c.tr.Entries, c.want) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", c.name, c.tr.Entries, c.want)
		}
	}
}

// Who is behind no node gets a frame of some node, whose packet is then spoofed.
func TestTheOuterHeaderOfAnAddressBehindNoNodeIsThatOfSomeNode(t *testing.T) {
	t.Parallel()
	table := tableOf(t, configured(t, clusterA), mtus)
	o, ok := gateway.NewTracer(table).KeyOf(addr(v4.absentPod))
	if ok || o != (gateway.NodeKey{Underlay: node1A.underlay, VNI: node1A.vni}) {
		t.Errorf("%+v %v", o, ok)
	}
	tr := gateway.NewTracer(table).TraceFrame(gateway.NewTracer(table).Frame(o, flow{src: v4.absentPod, dst: v4.seenPodB}.udp(nil)), o.Outer(), start)
	if tr.Reason != gateway.SpoofedSource {
		t.Errorf("%q", tr.Reason)
	}
	if o, ok := gateway.NewTracer(table).KeyOf(addr(v4.otherPodA)); !ok || o != (gateway.NodeKey{Underlay: node2A.underlay, VNI: node2A.vni, Encapsulation: gateway.VXLAN}) {
		t.Errorf("%+v %v", o, ok)
	}
}
