package gateway_test

import (
	"testing"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/raceflag"
	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/packet"
)

func TestJourneysAllocateNothing(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector allocates; run without -race")
	}
	a := withFlows(t, 1<<16, 1<<16)
	buffer := make([]byte, 1<<16)
	piece := make([]byte, overlayMTU)
	// An edit of a packet must not be undone by the next: each run has a fresh copy.
	egress := func(datagram []byte, want gateway.Verdict, answered bool) func() {
		return func() {
			a.now = a.now.Add(time.Second)
			r := a.egress.Frame(buffer[:copy(buffer, datagram)], node1A.outer(), a.now)
			finish(t, r, piece, want, answered)
		}
	}
	ingress := func(b []byte, want gateway.Verdict, answered bool) func() {
		return func() {
			a.now = a.now.Add(time.Second)
			finish(t, a.ingress.Packet(buffer[:copy(buffer, b)], a.now), piece, want, answered)
		}
	}
	// another sends another flow's first packet each time: only the port changes.
	another := func(b []byte) func() {
		low := len(b) - 8 + 1 // of the source port, of UDP without a payload
		run := egress(b, gateway.ToTunnel, false)
		return func() {
			b[low]++
			run()
		}
	}
	held := func(b []byte) func() { return egress(b, gateway.Drop, false) }
	origin := func(b []byte, want gateway.Verdict) func() {
		return func() { finish(t, a.origin.Packet(buffer[:copy(buffer, b)]), piece, want, false) }
	}
	for _, w := range families {
		out, in := flow{src: w.podA, dst: w.seenPodB, df: true}, flow{src: w.podB, dst: w.podA, df: true}
		last, lastIn := out, in
		last.ttl, lastIn.ttl = 1, 1
		long := flow{src: v4.podA, dst: v4.seenPodB}
		for name, run := range map[string]func(){
			"egress TCP":             egress(node1A.frame(out.tcp(ack, timestamps(), counting(1300))), gateway.ToTunnel, false),
			"egress SYN":             egress(node1A.frame(out.tcp(syn, mss(8960), nil)), gateway.ToTunnel, false),
			"egress super-packet":    egress(node1A.frame(partial(out).tcp(ack, nil, counting(20_000))), gateway.ToTunnel, false),
			"egress short super":     egress(node1A.frame(partial(out).tcp(ack, nil, counting(1300))), gateway.ToTunnel, false),
			"egress SCTP INIT":       egress(node1A.frame(sctpInit(out, 1)), gateway.ToTunnel, false),
			"egress fragments":       egress(node1A.frame(long.udp(counting(5000))), gateway.ToTunnel, false),
			"egress ICMP error":      egress(node1A.frame(out.unreachable(out.back().udp(counting(40)))), gateway.ToTunnel, false),
			"egress router's error":  egress(node1A.frame(flow{src: router(w), dst: w.seenPodB}.tooBig(1280, out.back().udp(counting(40)))), gateway.ToTunnel, false),
			"egress time exceeded":   egress(node1A.frame(last.udp(counting(1000))), gateway.Drop, true),
			"egress too big":         egress(node1A.frame(sized(tunnelMTU+1, out)), gateway.Drop, true),
			"egress spoofed":         egress(node1A.frame(flow{src: w.otherPodA, dst: w.seenPodB}.udp(nil)), gateway.Drop, false),
			"egress to the host":     egress(node1A.frame(flow{src: w.node, dst: w.gateway}.echo(nil)), gateway.ToHost, false),
			"egress probe":           egress(node1A.frame(flow{src: w.node, dst: w.gateway, to: nodeprobe.Port}.udp(request(7))), gateway.Drop, true),
			"egress closed port":     egress(node1A.frame(flow{src: w.podA, dst: w.gateway}.udp(nil)), gateway.Drop, true),
			"egress ARP":             egress(arpRequest(node1A, v4.node, v4.gateway), gateway.Drop, true),
			"egress solicitation":    egress(solicitation(node1A, v6.node, v6.gateway), gateway.Drop, true),
			"egress masqueraded":     egress(node1A.frame(flow{src: w.foreign, dst: w.seenPodB, df: true}.udp(nil)), gateway.ToTunnel, false),
			"egress new masqueraded": another(node1A.frame(flow{src: w.foreign, dst: w.seenPodB}.udp(nil))),
			"egress lone fragments":  held(node1A.frame(flow{src: w.foreign, dst: w.seenPodB, proto: packet.ProtoUDP}.piece(800, true, counting(800)))),
			"ingress unsolicited":    ingress(flow{src: w.podB, dst: w.gateOut}.udp(nil), gateway.Drop, false),
			"ingress TCP":            ingress(in.tcp(ack, timestamps(), counting(1300)), gateway.ToNode, false),
			"ingress SYN":            ingress(in.tcp(syn|ack, mss(8960), nil), gateway.ToNode, false),
			"ingress ICMP error":     ingress(in.tooBig(1300, in.back().tcp(ack, nil, counting(40))), gateway.ToNode, false),
			"ingress time exceeded":  ingress(lastIn.udp(counting(1000)), gateway.Drop, true),
			"ingress too big":        ingress(sized(overlayMTU+1, in), gateway.Drop, true),
			"ingress foreign":        ingress(flow{src: w.foreign, dst: w.podA}.udp(nil), gateway.Drop, false),
			"ingress to the host":    ingress(flow{src: w.podB, dst: w.gateOut}.echo(nil), gateway.ToHost, false),
			"origin to the tunnel":   origin(flow{src: w.gateway, dst: w.seenPodB}.echo(nil), gateway.ToTunnel),
			"origin to a node":       origin(flow{src: w.gateway, dst: w.podA}.echo(nil), gateway.ToNode),
		} {
			if n := testing.AllocsPerRun(50, run); n != 0 {
				t.Errorf("%s of %s: %v allocations", name, w.podA, n)
			}
		}
	}
}

// finish does what a caller does with a result, and checks that it is the one
// that the test is about.
func finish(t *testing.T, r gateway.Result, piece []byte, want gateway.Verdict, answered bool) {
	if r.Verdict != want || answered != (r.Answer != nil) {
		t.Fatalf("verdict %d, reason %q, answer % x", r.Verdict, r.Reason, r.Answer)
	}
	if r.Pieces != nil {
		for r.Pieces.Left() {
			r.Pieces.Next(piece)
		}
	}
}
