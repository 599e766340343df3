package gateway

import (
	"encoding/binary"
	"net/netip"
	"time"

	"strait.dev/strait/internal/ratelimit"
	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/packet"
)

// Budgets of one node and the pods behind it, for packets to the gateway itself, and for those whose copies
// go to all gateways. A node helper sends up to 10 probes a second, and two may run for a moment while one
// is replaced.
const (
	probeBudgetInterval = time.Second / 25
	probeBudgetBurst    = 25
	echoBudgetInterval  = time.Second / 100
	echoBudgetBurst     = 100
	hintBudgetInterval  = time.Second / 1000
	hintBudgetBurst     = 1000
)

// budgets limit what a node and its pods can make the gateway do. Nodes share none of them: a
// pod that floods the gateway costs other nodes no answer. Safe for concurrent use.
type budgets struct{ probes, echoes, errors, hints ratelimit.Shared }

// allProbes is how many probes per second all nodes send together at most.
const allProbes = 3000

// probeInterval returns the interval at which nodes are to probe the gateway: 100 ms, 1 ms for each node
// from 100 nodes on, 250 ms from 250 on, and longer if all nodes would send more than allProbes.
func (t *Table) probeInterval() time.Duration {
	nodes := time.Duration(len(t.nodes))
	return max(nodeprobe.MinInterval, min(nodes*time.Millisecond, nodeprobe.RestInterval), nodes*time.Second/allProbes)
}

// toGateway processes a packet from a node to an address that is the gateway's own or is
// mapped. Of packets to its own addresses only echo requests reach the host stack, within a
// budget; probes are answered here, and the rest is refused.
func (e *Egress) toGateway(t *Table, node *Node, from, to *route, b []byte, now time.Time) Result {
	ip := &e.ip
	r := Result{Verdict: ToHost, Packet: b, Version: ip.Version, Reassembled: e.reassembled}
	switch {
	case to.mapped && e.pieces.Datagrams(b, ip, e.datagram):
		r.Pieces = &e.pieces
	case to.mapped:
		if packet.IsPartial(b, ip) {
			packet.Complete(b, ip)
		}
	case isPing(b, ip):
		if !e.take(&node.budgets.echoes, now, echoBudgetInterval, echoBudgetBurst) {
			return drop(EchoBudget)
		}
	case from.inside && to.inside && udpPort(b, ip) == nodeprobe.Port:
		return e.answerProbe(t, node, b, now)
	case ip.Proto == packet.ProtoUDP, ip.Proto == packet.ProtoTCP:
		return e.refuseFrom(ip.Dst, node, b, GatewayPort, packet.PortUnreachable, 0, now)
	default:
		return e.refuseFrom(ip.Dst, node, b, GatewayPort, packet.Prohibited, 0, now)
	}
	return r
}

// answerProbe answers a probe of a node with the state of the gateway.
func (e *Egress) answerProbe(t *Table, node *Node, b []byte, now time.Time) Result {
	ip := &e.ip
	if !packet.UDPChecksumOK(b, ip) {
		return drop(ProbeMalformed)
	}
	u := ip.Upper(b)
	request, ok := nodeprobe.Parse(u[packet.UDPHeaderLen:])
	if !ok || request.Answer {
		return drop(ProbeMalformed)
	}
	if !e.take(&node.budgets.probes, now, probeBudgetInterval, probeBudgetBurst) {
		return drop(ProbeBudget)
	}
	asker := netip.AddrPortFrom(ip.Src, binary.BigEndian.Uint16(u))
	if !e.g.traced {
		node.probed.set(asker, ip.Dst, request.Sequence)
	}
	e.probes.Add(1)
	answer := nodeprobe.Message{Answer: true, State: e.g.State(now), Sequence: request.Sequence, Interval: t.probeInterval()}
	return Result{
		Node: node, Answer: appendProbeAnswer(e.answer[:0], answer, ip.Dst, asker),
		AnswerHeader: node.Header(ip.Version),
	}
}

// take takes a token of a node's budget. A trace takes none.
func (e *Egress) take(b *ratelimit.Shared, now time.Time, interval time.Duration, burst int) bool {
	return e.g.traced || b.Take(now, interval, burst)
}

// udpPort returns the destination port of a UDP datagram, 0 of other packets and of fragments.
func udpPort(b []byte, ip *packet.IP) uint16 {
	u := ip.Upper(b)
	if ip.Proto != packet.ProtoUDP || ip.Fragment != packet.Unfragmented || len(u) < packet.UDPHeaderLen {
		return 0
	}
	return binary.BigEndian.Uint16(u[2:])
}

// isPing reports whether a packet is an echo request, or a later fragment of what may be one.
func isPing(b []byte, ip *packet.IP) bool {
	if ip.Fragment == packet.LaterFragment {
		return ip.Version == 4 && ip.Proto == packet.ProtoICMP || ip.Version == 6 && ip.Proto == packet.ProtoICMPv6
	}
	return packet.IsEchoRequest(b, ip)
}
