package gateway_test

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/nodeprobe"
)

// request is a node's probe.
func request(sequence uint64) []byte {
	b := make([]byte, nodeprobe.Len)
	nodeprobe.Message{Sequence: sequence}.Put(b)
	return b
}

// ask probes the gateway from one of its nodes, and returns the answer.
func (s *side) ask(t testing.TB, w wire, from, to string, sequence uint64) (m nodeprobe.Message, ok bool) {
	t.Helper()
	f := flow{src: from, dst: to, from: 40000, to: nodeprobe.Port}
	r := s.send(w, w.frame(f.udp(request(sequence))))
	if r.Answer == nil {
		return m, false
	}
	w.unwrap(t, r.AnswerHeader, r.Answer[0]>>4)
	v := expect(t, r.Answer, to, from, 64)
	if !bytes.Equal(v.upper[:4], f.back().ports()) {
		t.Fatalf("ports % x", v.upper[:4])
	}
	m, ok = nodeprobe.Parse(v.upper[8:])
	if !ok || !m.Answer || m.Sequence != sequence || r.Reason != gateway.NoReason {
		t.Fatalf("answered %+v %v, dropped for %q", m, ok, r.Reason)
	}
	return m, true
}

func TestNodesAreToldTheStateOfTheGateway(t *testing.T) {
	t.Parallel()
	a := newA(t)
	answered := uint64(0)
	expectState := func(want nodeprobe.State) {
		t.Helper()
		for _, w := range families {
			for _, n := range []struct {
				wire wire
				from string
			}{{node1A, w.node}, {node2A, w.nodeWithout}} {
				m, ok := a.ask(t, n.wire, n.from, w.gateway, answered)
				answered++
				if !ok || m.State != want || m.Interval != nodeprobe.MinInterval {
					t.Errorf("%s is told %+v %v, want %v", n.from, m, ok, want)
				}
			}
		}
	}
	expectState(nodeprobe.Unknown)
	for _, state := range []nodeprobe.State{nodeprobe.NoLinks, nodeprobe.LinksUp, nodeprobe.Leaving} {
		a.SetState(state, a.now.Add(time.Hour))
		expectState(state)
	}
	if n := a.egress.Probes(); n != answered {
		t.Errorf("counted %d answered probes, %d were", n, answered)
	}
}

func TestTheLastProbesOfNodesAreAnsweredAgain(t *testing.T) {
	t.Parallel()
	a := newA(t)
	a.SetState(nodeprobe.LinksUp, a.now.Add(time.Hour))
	told := func() map[string]nodeprobe.Message {
		all := map[string]nodeprobe.Message{}
		a.Restate(a.now, func(r gateway.Result) {
			if _, twice := all[r.Node.Name]; twice {
				t.Errorf("%s is told twice", r.Node.Name)
			}
			v := expect(t, r.Answer, v6.gateway, v6.node, 64)
			all[r.Node.Name], _ = nodeprobe.Parse(v.upper[8:])
		})
		return all
	}
	if all := told(); len(all) > 0 {
		t.Errorf("nodes that sent no probe are told %v", all)
	}
	a.ask(t, node1A, v4.node, v4.gateway, 7)
	a.ask(t, node1A, v6.node, v6.gateway, 8)
	if changed := a.SetState(nodeprobe.NoLinks, a.now.Add(time.Hour)); !changed {
		t.Error("the change is not reported")
	}
	if changed := a.SetState(nodeprobe.NoLinks, a.now.Add(time.Hour)); changed {
		t.Error("the same state is reported as a change")
	}
	want := nodeprobe.Message{Answer: true, State: nodeprobe.NoLinks, Sequence: 8, Interval: nodeprobe.MinInterval}
	if all := told(); len(all) != 1 || all["node-1"] != want {
		t.Errorf("told %+v, want %+v", all, want)
	}
}

// A process that was stopped, and continues, does not say that links are up before it knows.
func TestF4_NodesAreNotToldAnOldState(t *testing.T) {
	t.Parallel()
	a := newA(t)
	for _, c := range []struct{ set, after nodeprobe.State }{
		{nodeprobe.LinksUp, nodeprobe.NoLinks}, {nodeprobe.NoLinks, nodeprobe.NoLinks}, {nodeprobe.Leaving, nodeprobe.Leaving},
	} {
		a.SetState(c.set, a.now.Add(10*time.Second))
		for _, want := range []nodeprobe.State{c.set, c.after} {
			if m, ok := a.ask(t, node1A, v4.node, v4.gateway, 1); !ok || m.State != want {
				t.Errorf("set to %v: told %v %v, want %v", c.set, m.State, ok, want)
			}
			a.now = a.now.Add(10*time.Second + 1)
		}
	}
}

// A node on the gateway's own machine leaves the checksum to a network card that is not there.
func TestProbesWithUnfinishedOrWithoutChecksumsAreAnswered(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		f := partial(flow{src: w.node, dst: w.gateway, to: nodeprobe.Port})
		if r := newA(t).fromNode(f.udp(request(1))); r.Answer == nil {
			t.Errorf("%s: not answered: %q", w.node, r.Reason)
		}
	}
	b := flow{src: v4.node, dst: v4.gateway, to: nodeprobe.Port}.udp(request(1))
	b[26], b[27] = 0, 0
	if r := newA(t).fromNode(b); r.Answer == nil {
		t.Errorf("without a checksum: not answered: %q", r.Reason)
	}
}

// All nodes together send 3000 probes a second at most.
func TestTheIntervalOfProbesGrowsWithTheNumberOfNodes(t *testing.T) {
	t.Parallel()
	for nodes, want := range map[int]time.Duration{
		1: 100 * time.Millisecond, 100: 100 * time.Millisecond, 200: 200 * time.Millisecond, 750: 250 * time.Millisecond, 753: 251 * time.Millisecond, 6000: 2 * time.Second,
	} {
		first := benchNode
		first.mac = [6]byte{0x0a, 0x58, 10, 200, 0, 0}
		a := sideOf(tableOf(t, large(nodes, nodes), mtus), first)
		if m, ok := a.ask(t, first, "10.200.0.0", v4.gateway, 1); !ok || m.Interval != want {
			t.Errorf("%d nodes: %v %v, want %v", nodes, m.Interval, ok, want)
		}
	}
}

// One pod sends 50 000 packets a second to the gateway itself for 10 s: to closed ports, to the
// port of probes, pings, and probes with the address of another node. Every probe of its node and
// of another is answered, and little reaches the host stack.
func TestT10_ANoisyPodCostsNoNodeAProbe(t *testing.T) {
	t.Parallel()
	const seconds, perProbe = 10, 50_000 / 4
	for _, w := range families {
		a := newA(t)
		noise := [][]byte{
			node1A.frame(flow{src: w.podA, dst: w.gateway, to: 9}.udp(counting(16))),
			node1A.frame(flow{src: w.podA, dst: w.gateway, to: nodeprobe.Port}.udp(request(1))),
			node1A.frame(flow{src: w.podA, dst: w.gateOut}.tcp(syn, nil, nil)),
			node1A.frame(flow{src: w.podA, dst: w.gateway}.echo(nil)),
			node1A.frame(flow{src: w.nodeWithout, dst: w.gateway, to: nodeprobe.Port}.udp(request(1))),
			node1A.frame(flow{src: w.otherPodA, dst: w.gateway, to: 6093}.udp(nil)),
		}
		toHost := 0
		for i := range seconds * 4 {
			for j := range perProbe {
				a.now = a.now.Add(nodeprobe.RestInterval / perProbe)
				if r := a.send(node1A, noise[j%len(noise)]); r.Verdict == gateway.ToHost {
					toHost++
				}
			}
			for _, n := range []struct {
				wire wire
				from string
			}{{node1A, w.node}, {node2A, w.nodeWithout}} {
				if _, ok := a.ask(t, n.wire, n.from, w.gateway, uint64(i)); !ok {
					t.Fatalf("a probe of %s is not answered after %d ms", n.from, i*250)
				}
			}
		}
		if toHost > (seconds+1)*100 {
			t.Errorf("%d packets to the host stack in %d s, 100 a second may be", toHost, seconds)
		}
	}
}

// What one node and its pods use up is not missing to another.
func TestT10_NodesShareNoBudget(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		a := newA(t)
		send := func(n wire, b []byte) gateway.Result { return a.send(n, n.frame(bytes.Clone(b))) }
		for range 1000 {
			a.ask(t, node1A, w.node, w.gateway, 1)
			send(node1A, flow{src: w.podA, dst: w.gateway}.echo(nil))
		}
		if _, ok := a.ask(t, node2A, w.nodeWithout, w.gateway, 1); !ok {
			t.Error("a probe of the other node is not answered")
		}
		expectVerdict(t, send(node2A, flow{src: w.otherPodA, dst: w.gateway}.echo(nil)), gateway.ToHost)
	}
	// Errors: sources enough to use up the limit of all that go to a node.
	a := newA(t)
	for i := range 250 {
		src := addr("10.0.1.0").As4()
		src[3] = byte(i)
		a.fromNode(flow{src: addrOf(src[:]), dst: v4.gateway}.udp(nil))
	}
	if _, suppressed := a.egress.Answers(); suppressed == 0 {
		t.Fatal("the limit is not reached")
	}
	if r := a.send(node2A, node2A.frame(flow{src: "10.0.2.254", dst: v4.gateway}.udp(nil))); r.Answer == nil {
		t.Error("a pod of the other node gets no error")
	}
}

func TestFragmentedPingsReachTheHost(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		proto := byte(1)
		if w == v6 {
			proto = 58
		}
		f := flow{src: w.podA, dst: w.gateway, proto: proto}
		whole := flow{src: w.podA, dst: w.gateway}.echo(counting(792))
		first := newA(t).fromNode(f.piece(0, true, whole[len(whole)-800:]))
		expectVerdict(t, first, gateway.ToHost)
		expectVerdict(t, newA(t).fromNode(f.piece(800, false, counting(100))), gateway.ToHost)
	}
}

func TestATraceTakesNothingFromTheBudgetsOfNodes(t *testing.T) {
	t.Parallel()
	a := newA(t)
	ping, probe := flow{src: v4.node, dst: v4.gateway}.echo(nil), flow{src: v4.node, dst: v4.gateway, to: nodeprobe.Port}.udp(request(1))
	closed := flow{src: v4.podA, dst: v4.gateway}.udp(nil)
	for range 1000 {
		tr := gateway.NewTracer(a.Table()).TraceFrame(node1A.frame(ping), node1A.outer(), a.now)
		if tr.Verdict != gateway.ToHost {
			t.Fatalf("a ping is dropped for %q", tr.Reason)
		}
		gateway.NewTracer(a.Table()).TraceFrame(node1A.frame(probe), node1A.outer(), a.now)
		gateway.NewTracer(a.Table()).TraceFrame(node1A.frame(closed), node1A.outer(), a.now)
	}
	expectVerdict(t, a.fromNode(ping), gateway.ToHost)
	if _, ok := a.ask(t, node1A, v4.node, v4.gateway, 1); !ok {
		t.Error("a probe is not answered")
	}
	if r := a.fromNode(closed); r.Answer == nil {
		t.Error("an error is not sent")
	}
}

// BenchmarkProbe measures the answer to one node's probe.
func BenchmarkProbe(b *testing.B) {
	for _, routes := range routeCounts {
		e := gateway.NewEgress(gateway.New(tableOf(b, clusterOf(routes), gateway.MTUs{Overlay: 1450, Tunnel: 1400}), rand.NewPCG(1, 2)))
		datagram := benchNode.frame(flow{src: "10.200.0.0", dst: v4.gateway, to: nodeprobe.Port}.udp(request(1)))
		now := start
		b.Run(map[bool]string{true: "nodes=1", false: "nodes=5000"}[routes == 1], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				now = now.Add(time.Second)
				if r := e.Frame(datagram, benchNode.outer(), now); r.Answer == nil {
					b.Fatal("not answered")
				}
			}
		})
	}
}
