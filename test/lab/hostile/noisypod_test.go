//go:build lab || nightly

package hostile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/test/lab"
	"strait.dev/strait/test/wait"
)

// Not parallel: the flood needs a processor.
func TestT10_ANoisyPodCostsItsNodeNoProbe(t *testing.T) { testNoisyPod(t, 3*time.Second) }

// testNoisyPod has one pod send 50 000 packets a second to the gateway itself: to closed ports, to
// the ports of probes and of links, and pings. Meanwhile every probe of the node must be answered,
// and masqueraded flows of another source must stay alive.
func testNoisyPod(t *testing.T, length time.Duration) {
	top := lab.Build(t, lab.Options{})
	a, g := top.A, top.A.Gateway
	g.Reload(t, "ok", func() {
		text, err := os.ReadFile(g.ConfigFile())
		if err != nil {
			t.Fatal(err)
		}
		g.ReplaceConfigFile(t, string(text)+natConfig)
	})
	h := &hostile{t: t, top: top}
	h.joinAttackers(t)
	a.AddPodAddress(t, natClient)
	clients := h.openFlows(t, natClient, 5)
	a.Node.IP(t, fmt.Sprintf("route add %s via %s dev strait0", lab.GatewayExternal[0], lab.GatewayInternal[0]))

	const rate = 50_000
	var fs []func(<-chan struct{}) int
	for _, to := range []netip.Addr{lab.GatewayInternal[0], lab.GatewayExternal[0]} {
		send, noise := fromAnywhere(t, h.attackers.pod, to), noiseFor(h.attackers.pod4, to)
		fs = append(fs, func(stop <-chan struct{}) int {
			return flood(send, func(n int) []byte { return noise[n%len(noise)] }, rate/2, stop)
		})
	}
	p := &probing{to: a.Node.Dial(t, "udp", netip.AddrPortFrom(lab.GatewayInternal[0], nodeprobe.Port)), answered: map[uint64]bool{}}
	go p.receive()
	began := time.Now()
	sent := floods(fs, func() {
		p.send(length)
		for i, c := range clients {
			if err := echoWithin(c, fmt.Appendf(nil, "flow %d is alive", i), 3); err != nil {
				t.Errorf("masqueraded flow %d: %v", i, err)
			}
		}
	})
	took := time.Since(began)
	missed := p.missed(t)
	t.Logf("%.0f packets per second for %v; %d of %d probes were missed; drops:\n%s",
		float64(sent)/took.Seconds(), took.Round(time.Millisecond), missed, p.asked, g.DropTable())
	if missed > 0 {
		t.Errorf("%d of %d probes were missed", missed, p.asked)
	}
	for _, reason := range []string{"gateway_port", "echo_budget"} {
		if g.Drops(t, "egress", reason) == 0 {
			t.Errorf("no packet was dropped as %s", reason)
		}
	}
}

// noiseFor returns the packets of a noisy pod to an address of the gateway.
func noiseFor(pod, to netip.Addr) (noise [][]byte) {
	request := requestOf(1)
	for _, port := range []uint16{9, 53, 6091, 6093, 6094, nodeprobe.Port, 8080} {
		noise = append(noise, lab.UDPTo(netip.AddrPortFrom(pod, 4000), netip.AddrPortFrom(to, port), request))
	}
	return append(noise, lab.ICMP4(pod, to, 8, 0, binary.BigEndian.Uint32(request), request))
}

// requestOf returns a probe.
func requestOf(sequence uint64) []byte {
	b := make([]byte, nodeprobe.Len)
	nodeprobe.Message{Sequence: sequence}.Put(b)
	return b
}

// probing sends numbered probes of one node.
type probing struct {
	to    net.Conn
	asked uint64
	ended atomic.Bool // a probe after the last was answered

	mu       sync.Mutex
	answered map[uint64]bool // by sequence; protected by mu
}

// endOfProbes is the number of the probes that follow the last.
const endOfProbes = ^uint64(0)

// receive notes the answers of the gateway until the socket is closed. One whose state changes answers twice.
func (p *probing) receive() {
	for b := make([]byte, 2048); ; {
		n, err := p.to.Read(b)
		if errors.Is(err, net.ErrClosed) {
			return // the test has ended; other errors are about a datagram
		}
		switch m, ok := nodeprobe.Parse(b[:n]); {
		case !ok || !m.Answer:
		case m.Sequence == endOfProbes:
			p.ended.Store(m.State == nodeprobe.LinksUp)
		default:
			p.mu.Lock()
			p.answered[m.Sequence] = true
			p.mu.Unlock()
		}
	}
}

// send sends ten probes a second, half of the budget of a node.
func (p *probing) send(length time.Duration) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range length / (100 * time.Millisecond) {
		<-tick.C
		p.asked++
		_, _ = p.to.Write(requestOf(p.asked)) // it counts as missed
	}
}

// missed returns how many probes were not answered. The path keeps the order of probes: none is in
// transit any more when a later one is answered.
func (p *probing) missed(t *testing.T) uint64 {
	t.Helper()
	wait.Until(t, "a probe after the flood is answered", func() bool {
		_, _ = p.to.Write(requestOf(endOfProbes))
		return p.ended.Load()
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked - uint64(len(p.answered))
}
