//go:build nightly

package nodes

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/packet"
	"strait.dev/strait/test/lab"
	"strait.dev/strait/test/program"
)

// manyNodes are nodes of cluster A that only probe its gateway, each from an address of its own. They do what node helpers
// do: they keep to the interval that the gateway asks for, and repeat a request without an answer.
type manyNodes struct {
	sockets  []*net.UDPConn
	requests [][]byte // frames
	to       netip.AddrPort

	asked, answered atomic.Int64 // requests and their answers
	unlike          atomic.Int64 // answers that state something else than a link that is up, or another interval
}

const (
	manyNodesCount = 4999 // and one with a pod
	// manyNodesInterval is the interval that the gateway asks for, so that all nodes together send 3,000 requests per second.
	manyNodesInterval = 5 * time.Second / 3
)

// numbered returns address i of a /16 that has room for all nodes.
func numbered(first string, i int) netip.Addr {
	a := lab.Addr(first).As4()
	a[2], a[3] = a[2]+byte(i>>8), byte(i)
	return netip.AddrFrom4(a)
}

// manyNode is the configuration of one of the nodes.
func manyNode(s *lab.Site, i int) lab.NodeConfig {
	return lab.NodeConfig{
		Name: fmt.Sprintf("many-%d", i), Underlay: numbered("10.100.0.0", i), Encapsulation: s.Encapsulation, VNI: lab.VNI,
		Addresses: []netip.Addr{numbered("10.80.16.0", i)}, ExternalAddresses: []netip.Addr{numbered("10.70.16.0", i)},
		Prefixes: []netip.Prefix{netip.PrefixFrom(numbered("10.0.16.0", i), 32)},
	}
}

// joinManyNodes creates the namespace of all nodes, whose addresses are local in it.
func joinManyNodes(t *testing.T, s *lab.Site) *manyNodes {
	t.Helper()
	n := lab.NewNamespace(t, "many", nil)
	lab.Connect(t, n, "gw0", s.GW, "eth1")
	n.IP(t, fmt.Sprintf("addr add 10.0.3.1/32 dev gw0\nroute add %s dev gw0 src 10.0.3.1\nroute add local 10.100.0.0/16 dev lo", s.GW4))
	s.GW.IP(t, fmt.Sprintf("route add 10.0.3.1 dev eth1 src %s\nroute add 10.100.0.0/16 via 10.0.3.1 dev eth1", s.GW4))
	m := &manyNodes{to: s.OverlayAt(s.Encapsulation)}
	err := n.In(func() error {
		for i := range manyNodesCount {
			c := manyNode(s, i)
			socket, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(c.Underlay, m.to.Port())))
			if err != nil {
				return err
			}
			request := make([]byte, nodeprobe.Len)
			nodeprobe.Message{Sequence: uint64(i)}.Put(request)
			from, to := netip.AddrPortFrom(c.Addresses[0], 40000), netip.AddrPortFrom(lab.GatewayInternal[0], nodeprobe.Port)
			m.sockets, m.requests = append(m.sockets, socket), append(m.requests, lab.FrameOf(s.Encapsulation, lab.VNI, lab.UDPTo(from, to, request)))
		}
		return nil
	})
	t.Cleanup(func() {
		for _, socket := range m.sockets {
			socket.Close()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// probe makes all nodes probe for a time, and waits for the end.
func (m *manyNodes) probe(ctx context.Context, during time.Duration) error {
	ctx, stop := context.WithTimeout(ctx, during)
	defer stop()
	var nodes sync.WaitGroup
	failures := make(chan error, len(m.sockets))
	for i := range m.sockets {
		nodes.Go(func() {
			for wait := rand.N(manyNodesInterval); ; {
				select {
				case <-ctx.Done():
					return
				case <-time.After(wait):
				}
				var err error
				if wait, err = m.ask(i); err != nil {
					failures <- err
					return
				}
			}
		})
	}
	nodes.Wait()
	close(failures)
	return <-failures
}

// ask sends a request of a node, and returns when the next one is due.
func (m *manyNodes) ask(i int) (wait time.Duration, err error) {
	begun := time.Now()
	m.asked.Add(1)
	if _, err := m.sockets[i].WriteToUDPAddrPort(m.requests[i], m.to); err != nil {
		return 0, err
	}
	const headers = 8 + packet.EthernetHeaderLen + packet.IPv4HeaderLen + packet.UDPHeaderLen
	b := make([]byte, 256)
	if err := m.sockets[i].SetReadDeadline(begun.Add(nodeprobe.RepeatInterval)); err != nil {
		return 0, err
	}
	for {
		n, err := m.sockets[i].Read(b)
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, unix.ECONNREFUSED) {
			return 0, nil // the next one is the same again
		}
		if err != nil {
			return 0, err
		}
		if n <= headers {
			continue
		}
		a, ok := nodeprobe.Parse(b[headers:n])
		if !ok || !a.Answer || a.Sequence != uint64(i) {
			continue
		}
		m.answered.Add(1)
		if a.State != nodeprobe.LinksUp || a.Interval != manyNodesInterval.Truncate(time.Millisecond) {
			m.unlike.Add(1)
		}
		return a.Interval - time.Since(begun), nil
	}
}

// TestF23_ProbesOf5000NodesMeasured measures the CPU time that a gateway uses at rest, without nodes that probe it and with 5,000.
// The target is 3 % of a core; time is no verdict in a test.
func TestF23_ProbesOf5000NodesMeasured(t *testing.T) {
	const rounds, window = 3, 8 * time.Second
	top := lab.Build(t, lab.Options{Configure: func(s *lab.Site, c *lab.GatewayConfig) {
		if s.Name != "a" {
			return
		}
		for i := range manyNodesCount {
			c.Nodes = append(c.Nodes, manyNode(s, i))
		}
	}})
	nodes, pid := joinManyNodes(t, top.A), top.A.Gateway.Cmd.Process.Pid
	if err := nodes.probe(t.Context(), 2*manyNodesInterval); err != nil { // from the first answers on they keep to the interval
		t.Fatal(err)
	}
	for range rounds {
		asked, answered, dropped := nodes.asked.Load(), nodes.answered.Load(), top.A.Gateway.Metric(t, "strait_dropped_packets_total")
		begun, used := time.Now(), program.CPUTime(t, pid)
		time.Sleep(window)
		rest := (program.CPUTime(t, pid) - used).Seconds() / time.Since(begun).Seconds()
		begun, used = time.Now(), program.CPUTime(t, pid)
		if err := nodes.probe(t.Context(), window); err != nil {
			t.Fatal(err)
		}
		took := time.Since(begun).Seconds()
		probed := (program.CPUTime(t, pid) - used).Seconds() / took
		asked, answered = nodes.asked.Load()-asked, nodes.answered.Load()-answered
		dropped = top.A.Gateway.Metric(t, "strait_dropped_packets_total") - dropped
		t.Logf("%d nodes, %.0f requests/s, %d of %d answered: the gateway uses %.2f %% of a core, %.2f %% without them: %.2f %% more, %.1f µs for each request",
			manyNodesCount, float64(asked)/took, answered, asked, 100*probed, 100*rest, 100*(probed-rest), 1e6*(probed-rest)*took/float64(asked))
		if float64(answered) < 0.99*float64(asked) {
			t.Errorf("%d of %d requests were answered; the gateway dropped %.0f packets", answered, asked, dropped)
		}
		if float64(asked) > 3000*took*1.02 {
			t.Errorf("%.0f requests per second, more than 3,000", float64(asked)/took)
		}
	}
	if n := nodes.unlike.Load(); n > 0 {
		t.Errorf("%d answers state no link that is up, or another interval than %v", n, manyNodesInterval.Truncate(time.Millisecond))
	}
}
