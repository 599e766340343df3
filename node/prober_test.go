//go:build lab

package node

import (
	"context"
	"net"
	"net/netip"
	"testing"
	"time"

	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/test/netns"
)

func TestOnlyExistingHostsAnswerProbes(t *testing.T) {
	inEachWorld(t, func(t *testing.T, w *world) {
		w.apply(t, w.desired())
		p := proberIn(t, w.node)
		answerProbes(t, w.gateway)
		for _, to := range addrs("10.80.0.1", "fd00:80::1") {
			if m, err := ask(t, p, to, patience); err != nil || m.State != nodeprobe.LinksUp {
				t.Errorf("%v %v", m, err)
			}
		}
		for _, to := range addrs("10.80.0.2", "fd00:80::2") {
			if _, err := ask(t, p, to, patience); err == nil {
				t.Errorf("%s is not assigned, but it answered", to)
			}
		}
		w.gateway.IP(t, "link set overlay down")
		if _, err := ask(t, p, netip.MustParseAddr("10.80.0.1"), patience); err == nil {
			t.Error("the gateway answers although its end of the overlay is down")
		}
	})
}

// answerProbes answers probes in a namespace, as a gateway with links does.
func answerProbes(t *testing.T, n *netns.Namespace) {
	t.Helper()
	var conn *net.UDPConn
	must(t, n.In(func() (err error) {
		conn, err = net.ListenUDP("udp", &net.UDPAddr{Port: nodeprobe.Port})
		return err
	}))
	done := make(chan struct{})
	t.Cleanup(func() { _ = conn.Close(); <-done })
	go func() {
		defer close(done)
		b := make([]byte, nodeprobe.Len)
		for {
			size, from, err := conn.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			if m, ok := nodeprobe.Parse(b[:size]); ok {
				m.Answer, m.State = true, nodeprobe.LinksUp
				m.Put(b)
				_, _ = conn.WriteToUDPAddrPort(b, from) // a loss is asked again
			}
		}
	}()
}

func proberIn(t *testing.T, n *netns.Namespace) *Prober {
	t.Helper()
	var p *Prober
	must(t, n.In(func() (err error) {
		p, err = NewProber()
		return err
	}))
	t.Cleanup(p.Close)
	return p
}

// ask returns the first answer to a probe.
func ask(t *testing.T, p *Prober, to netip.Addr, limit time.Duration) (first nodeprobe.Message, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	err = p.Ask(ctx, to, func(m nodeprobe.Message) { first = m; cancel() })
	return first, err
}
