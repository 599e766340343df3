package gateway

import (
	"net/netip"
	"sync"
	"time"

	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/packet"
)

// lastProbe is the last probe of a node. Safe for concurrent use.
type lastProbe struct {
	mu       sync.Mutex
	from     netip.AddrPort // invalid: there was none
	to       netip.Addr
	sequence uint64
}

func (l *lastProbe) set(from netip.AddrPort, to netip.Addr, sequence uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.from, l.to, l.sequence = from, to, sequence
}

func (l *lastProbe) came() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.from.IsValid()
}

// NodesThatProbed returns the number of nodes that have probed the gateway since the table is in
// use.
func (t *Table) NodesThatProbed() (n int) {
	for _, node := range t.nodes {
		if node.probed.came() {
			n++
		}
	}
	return n
}

// Restate answers the last probe of each node again, with the state of now: nodes need not wait
// for their next probe to know that the gateway no longer forwards. It calls send for each answer;
// the memory of an answer belongs to send.
func (g *Gateway) Restate(now time.Time, send func(Result)) {
	for _, node := range g.Table().nodes {
		m := nodeprobe.Message{Answer: true, State: g.State(now), Interval: g.Table().probeInterval()}
		if answer, ok := node.probed.answerAgain(m); ok {
			send(Result{Node: node, Answer: answer, AnswerHeader: node.Header(answer[0] >> 4)})
		}
	}
}

// answerAgain returns another answer to the probe, with its sequence. It returns false if there was none.
func (l *lastProbe) answerAgain(m nodeprobe.Message) ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.from.IsValid() {
		return nil, false
	}
	m.Sequence = l.sequence
	return appendProbeAnswer(nil, m, l.to, l.from), true
}

// appendProbeAnswer appends the IP packet that answers a probe which was sent to an address of the
// gateway.
func appendProbeAnswer(b []byte, m nodeprobe.Message, to netip.Addr, from netip.AddrPort) []byte {
	var payload [nodeprobe.Len]byte
	m.Put(payload[:])
	return packet.AppendUDP(b, netip.AddrPortFrom(to, nodeprobe.Port), from, payload[:])
}
