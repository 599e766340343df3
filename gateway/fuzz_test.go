package gateway_test

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/packet"
)

// rules are what must hold of every packet that leaves a gateway, whatever came
// in. They are read off the configuration, not off the table.
type rules struct {
	c        *config.Gateway
	behind   naive
	granted  []netip.Prefix
	remote   []netip.Prefix // as the remote knows itself
	seen     []netip.Prefix // as this cluster knows it
	external []netip.Addr
	own      []netip.Addr
}

func rulesOf(c *config.Gateway) rules {
	r := rules{
		c: c, behind: naiveTable(c),
		granted:  slices.Concat(c.Local.Prefixes, c.Local.ExternalPrefixes),
		external: c.Overlay.ExternalAddresses,
		own:      slices.Concat(c.Overlay.Addresses, c.Overlay.ExternalAddresses),
	}
	for _, p := range c.Remote.Prefixes {
		r.remote, r.seen = append(r.remote, p.CIDR), append(r.seen, p.SeenAs)
	}
	return r
}

func in(prefixes []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) })
}

// checkSent checks all that a result sends, and that it fits.
func checkSent(t *testing.T, r gateway.Result, mtu int, ttl uint8, check func(v view)) {
	t.Helper()
	if r.Answer != nil || r.Reason != gateway.NoReason {
		t.Fatalf("forwarded, and %q with answer % x", r.Reason, r.Answer)
	}
	if r.Version != r.Packet[0]>>4 {
		t.Fatalf("IPv%d said to be IPv%d", r.Packet[0]>>4, r.Version)
	}
	for _, b := range pieces(t, r, mtu) {
		v := readWell(t, b)
		if v.ttl != ttl-1 || v.ttl == 0 {
			t.Fatalf("TTL %d after %d", v.ttl, ttl)
		}
		check(v)
	}
}

// checkAnswer checks an ICMP error: its quote, source and destination.
func checkAnswer(t *testing.T, answer []byte, from []netip.Addr, about []byte) {
	t.Helper()
	v, sender := receive(t, answer), read(t, about).src
	if !slices.Contains(from, v.src) || v.dst != sender {
		t.Fatalf("answer from %v to %v, about a packet from %v", v.src, v.dst, sender)
	}
	if len(answer) > packet.MaxICMPErrorLen || v.proto != packet.ProtoICMP && v.proto != packet.ProtoICMPv6 {
		t.Fatalf("answer of %d bytes, protocol %d", len(answer), v.proto)
	}
	if !bytes.HasPrefix(about, v.upper[8:20]) { // the checksum of an unfinished packet may be finished
		t.Fatalf("answer quotes % x, is about % x", v.upper[8:], about)
	}
}

// checkProbeAnswer checks that the answer to a probe goes from an internal address of the gateway
// to one of the node that asked, and has the request's sequence.
func checkProbeAnswer(t *testing.T, answer []byte, c *config.Gateway, node string, about []byte) {
	t.Helper()
	v, asked := receive(t, answer), read(t, about)
	i := slices.IndexFunc(c.Overlay.Nodes, func(n config.Node) bool { return n.Name == node })
	if !slices.Contains(c.Overlay.Addresses, v.src) || v.src != asked.dst || !slices.Contains(c.Overlay.Nodes[i].Addresses, v.dst) || v.dst != asked.src {
		t.Fatalf("answer from %v to %v, about a probe from %v to %v", v.src, v.dst, asked.src, asked.dst)
	}
	m, ok := nodeprobe.Parse(v.upper[8:])
	q, asksWell := nodeprobe.Parse(asked.upper[8:])
	if !ok || !m.Answer || !asksWell || q.Answer || m.Sequence != q.Sequence {
		t.Fatalf("answer %+v to %+v", m, q)
	}
}

// checkCounted checks that a drop and nothing else was counted as one.
func checkCounted(t *testing.T, c *gateway.Counters, r gateway.Result) {
	t.Helper()
	counts := dropped(c)
	if r.Reason == gateway.NoReason && len(counts) != 0 || r.Reason != gateway.NoReason && (len(counts) != 1 || counts[r.Reason] != 1) {
		t.Fatalf("reason %q, counted %v", r.Reason, counts)
	}
}

// guard gives b a neighbour in memory whose bytes must not change.
func guard(b []byte) (guarded []byte, check func(t *testing.T)) {
	canary := bytes.Repeat([]byte{0xa5}, 64)
	memory := slices.Concat(b, canary)
	return memory[:len(b)], func(t *testing.T) {
		t.Helper()
		if !bytes.Equal(memory[len(b):], canary) {
			t.Fatal("written behind the packet")
		}
	}
}

// everyKind is a packet of each shape that a journey tells apart.
func everyKind(f flow) [][]byte {
	var all [][]byte
	for _, p := range payloads {
		all = append(all, p.build(f))
	}
	about := f.back().udp(counting(40))
	hop := f
	hop.next, hop.extensions = 0, []byte{60, 0, 1, 4, 0, 0, 0, 0, 17, 0, 1, 4, 0, 0, 0, 0}
	hop.options = []byte{0x94, 4, 0, 0}
	last := f
	last.ttl = 1
	return append(all,
		f.tcp(syn, mss(8960), nil), f.tcp(syn|ack, append([]byte{1}, append(mss(1460), 1, 0, 0)...), nil),
		partial(f).udp(counting(10)), partial(f).tcp(ack|psh|fin, timestamps(), counting(3000)),
		f.udp(counting(3000)), f.tcp(ack, nil, counting(2000)), hop.udp(counting(12)), last.udp(nil),
		f.unreachable(about), f.unreachable(about[:48]), f.tooBig(1300, f.back().tcp(ack, nil, nil)))
}

func FuzzEgressFrame(f *testing.F) {
	for _, w := range families {
		for _, j := range journeys(w) {
			for _, b := range everyKind(flow{src: j.src, dst: j.dst}) {
				f.Add(node1A.frame(b), uint8(0), uint16(0))
			}
			f.Add(node1A.frame(partial(flow{src: j.src, dst: j.dst}).udp(counting(3000))), uint8(0), uint16(1000))
		}
		f.Add(node2A.frame(flow{src: w.otherPodA, dst: w.seenPodB}.udp(nil)), uint8(1), uint16(0))
		f.Add(node1A.frame(flow{src: w.node, dst: w.gateway}.echo(nil)), uint8(0), uint16(0))
		f.Add(node1A.frame(flow{src: w.node, dst: w.gateway, to: nodeprobe.Port}.udp(request(7))), uint8(0), uint16(0))
		f.Add(node1A.frame(flow{src: w.podA, dst: w.foreign}.echo(nil)), uint8(0), uint16(0))
	}
	f.Add(arpRequest(node1A, v4.node, v4.gateway), uint8(0), uint16(0))
	f.Add(solicitation(node1A, v6.node, v6.gateway), uint8(0), uint16(0))
	f.Add(slices.Concat([]byte{1, 0, 0x65, 0x58, 0, 0, 101, 0, 1, 2, 3, 0}, node1A.frame(flow{src: v4.podA, dst: v4.seenPodB}.udp(nil))[8:]), uint8(0), uint16(0))

	c := configured(f, clusterA)
	g, rule := gateway.New(tableOf(f, c, mtus), rand.NewPCG(1, 2)), rulesOf(c)
	now := start
	f.Fuzz(func(t *testing.T, datagram []byte, from uint8, size uint16) {
		now = now.Add(time.Second) // the budgets of nodes are full again
		w := []wire{node1A, node2A, node1B}[from%3]
		inner := bytes.Clone(datagram[min(len(datagram), gateway.EncapLen):])
		b, unharmed := guard(datagram)
		e := gateway.NewEgress(g)
		r := e.SuperFrame(b, w.outer(), int(size), now)
		if options := len(datagram) > 0 && w.encapsulation == gateway.Geneve; options {
			inner = inner[min(len(inner), int(datagram[0]&0x3f)*4):]
		}
		checkCounted(t, &e.Counters, r)
		switch r.Verdict {
		case gateway.ToTunnel:
			node, sent := w.name(), read(t, inner)
			if rule.behind.lookup(sent.src) != node || !in(rule.seen, sent.dst) {
				t.Fatalf("%v to %v from %s went through", sent.src, sent.dst, node)
			}
			checkSent(t, r, tunnelMTU, sent.ttl, func(v view) {
				if !in(rule.granted, v.src) || !in(rule.remote, v.dst) {
					t.Fatalf("%v to %v went into the tunnel", v.src, v.dst)
				}
			})
		case gateway.ToHost:
			if v := readWell(t, r.Packet); !slices.Contains(rule.own, v.dst) || rule.behind.lookup(v.src) != w.name() {
				t.Fatalf("%v to %v went to the host", v.src, v.dst)
			}
		case gateway.Drop:
			switch {
			case r.Reason == gateway.NoReason && r.Answer == nil:
				t.Fatal("dropped for no reason")
			case r.Answer != nil && r.Reason == gateway.NoReason && len(r.AnswerHeader) == gateway.EncapLen:
				checkProbeAnswer(t, r.Answer, rule.c, w.name(), inner)
			case r.Answer != nil && len(r.AnswerHeader) == gateway.EncapLen:
				checkAnswer(t, r.Answer, rule.own, inner)
			case r.Answer != nil && len(r.AnswerHeader) != 8:
				t.Fatalf("answer behind % x", r.AnswerHeader)
			}
		default:
			t.Fatalf("verdict %d", r.Verdict)
		}
		unharmed(t)
	})
}

// name is the node that a wire belongs to in cluster A.
func (w wire) name() string {
	return map[netip.Addr]string{node1A.underlay: "node-1", node2A.underlay: "node-2"}[w.underlay]
}

func FuzzIngressPacket(f *testing.F) {
	for _, w := range families {
		for _, j := range journeys(w) {
			for _, b := range everyKind(flow{src: j.tunnelSrc, dst: j.tunnelDst}.back()) {
				f.Add(b)
			}
		}
		f.Add(flow{src: w.podB, dst: w.gateOut}.echo(nil))
		f.Add(flow{src: w.podB, dst: w.absentPod}.echo(nil))
		f.Add(flow{src: w.podB, dst: w.foreign}.echo(nil))
	}
	f.Add(flow{src: "fe80::b", dst: "fe80::a"}.udp(counting(20)))

	c := configured(f, clusterA)
	g, rule := gateway.New(tableOf(f, c, mtus), rand.NewPCG(1, 2)), rulesOf(c)
	f.Fuzz(func(t *testing.T, sent []byte) {
		b, unharmed := guard(sent)
		i := gateway.NewIngress(g)
		r := i.Packet(b, start)
		checkCounted(t, &i.Counters, r)
		switch r.Verdict {
		case gateway.ToNode:
			before := read(t, sent)
			if !in(rule.remote, before.src) || !in(rule.granted, before.dst) {
				t.Fatalf("%v to %v went through", before.src, before.dst)
			}
			checkSent(t, r, overlayMTU, before.ttl, func(v view) {
				if !in(rule.seen, v.src) || rule.behind.lookup(v.dst) != r.Node.Name || rule.behind.lookup(before.dst) != r.Node.Name {
					t.Fatalf("%v to %v went to node %s", v.src, v.dst, r.Node.Name)
				}
			})
		case gateway.ToHost:
			v := readWell(t, r.Packet)
			links := v.src.IsLinkLocalUnicast() && v.dst.IsLinkLocalUnicast()
			if !links && (!in(rule.seen, v.src) || !slices.Contains(rule.c.Overlay.Addresses, v.dst)) {
				t.Fatalf("%v to %v went to the host", v.src, v.dst)
			}
		case gateway.Drop:
			if r.Reason == gateway.NoReason {
				t.Fatal("dropped for no reason")
			}
			if r.Answer != nil {
				checkAnswer(t, r.Answer, rule.external, sent)
			}
		default:
			t.Fatalf("verdict %d", r.Verdict)
		}
		unharmed(t)
	})
}
