package tun

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/relay"
	"strait.dev/strait/test/ports"
	"strait.dev/strait/test/wait"
)

// A client of a port of gateway a reaches a pod behind gateway b. Neither has a node.
func TestAForwardReachesAPodOfAClusterWithoutNodes(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); c.Close() }()
		}
	}()
	dialled := make(chan string, 10)
	a, b, at := newForward(t, func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled <- address
		return new(net.Dialer).DialContext(ctx, network, server.Addr().String())
	})

	c, err := net.Dial("tcp4", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	sent := bytes.Repeat([]byte("to and fro "), 150_000) // more than all buffers
	go func() { _, _ = c.Write(sent); _ = c.(*net.TCPConn).CloseWrite() }()
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d came back, %v", len(got), len(sent), err)
	}
	if at := <-dialled; at != "10.0.2.9:8080" {
		t.Errorf("b dialled %s", at)
	}
	wait.Until(t, "both count one connection", func() bool {
		from, _ := a.fabric.Relay.Forwarded()
		to, _ := b.fabric.Relay.Proxied()
		return from.Opened == 1 && from.ToTarget == uint64(len(sent)) && to.Opened == 1 && to.ToCaller == uint64(len(sent)) && from.Open+to.Open == 0
	})
}

// One segment of 64 KiB costs the host stacks about as much as one of 1.3 KiB.
func TestTheHostStackSendsAndReceivesLongSegments(t *testing.T) {
	t.Parallel()
	const size = 8 << 20
	server, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		c, err := server.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = c.Write(make([]byte, size))
	}()
	a, b, at := newForward(t, func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Addr().String())
	})
	received, sent := a.fabric.host.stack.Stats().TCP.ValidSegmentsReceived, b.fabric.host.stack.Stats().TCP.SegmentsSent
	receivedBefore, sentBefore := received.Value(), sent.Value()
	c, err := net.Dial("tcp4", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, err := io.Copy(io.Discard, c); n != size || err != nil {
		t.Fatalf("%d bytes arrive, want %d: %v", n, size, err)
	}
	const most = size / testMTU / 2
	if n := sent.Value() - sentBefore; n > most {
		t.Errorf("%d segments sent, want %d at most", n, most)
	}
	if n := received.Value() - receivedBefore; n > most {
		t.Errorf("%d segments received, want %d at most", n, most)
	}
	t.Logf("%d segments sent, %d received", sent.Value()-sentBefore, received.Value()-receivedBefore)
}

// newForward returns two gateways without nodes, with a link, and a port of a that stands for a pod
// behind b. dial connects to the pod in place of the relay, which dials nothing on loopback.
func newForward(t testing.TB, dial relay.Dialer) (a, b *end, at string) {
	t.Helper()
	a, b = newEnd(t, "10.71.0.0/16"), newEndThatDials(t, "10.72.0.0/16", dial)
	t.Cleanup(func() { a.fabric.Close(); b.fabric.Close() })
	for _, e := range []*end{a, b} {
		e.give(t, func(c *config.Gateway) {
			c.Overlay.Nodes = nil
			c.Remote.Prefixes = append(c.Remote.Prefixes, config.RemotePrefix{CIDR: netip.MustParsePrefix("10.70.0.0/16"), SeenAs: netip.MustParsePrefix("10.73.0.0/16")})
			c.Proxy.Prefixes = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}
		})
	}
	if err := b.fabric.Relay.SetProxy(b.config.Proxy); err != nil {
		t.Fatal(err)
	}
	listen := config.ListenAddress{Addr: netip.MustParseAddr("127.0.0.1"), Port: ports.Free(t, 1)[0]}
	forwards := []config.Forward{{Protocol: config.TCP, Listen: listen, Targets: []netip.AddrPort{netip.MustParseAddrPort("10.71.2.9:8080")}}}
	if err := a.fabric.Relay.SetForwards(forwards, config.Callers{Prefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}); err != nil {
		t.Fatal(err)
	}
	setLinks(t, a, a.link("b-0", b))
	setLinks(t, b, b.link("a-0", a))
	wait.Until(t, "the link is up", func() bool { return a.fabric.Status()[0].Up && b.fabric.Status()[0].Up })
	return a, b, listen.String()
}

// A gateway without nodes may listen for none.
func TestAGatewayWithoutOverlaySocketsSendsItsOwnPackets(t *testing.T) {
	t.Parallel()
	overlay, err := OpenOverlay(OverlayConfig{})
	if err != nil {
		t.Fatal(err)
	}
	c := testConfig()
	c.Overlay.Nodes = nil
	table, err := gateway.NewTable(c, gateway.MTUs{Overlay: 1450, Tunnel: testMTU}, overlay.Handle)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(gateway.New(table, rand.NewPCG(1, 2)), overlay, Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.director.fallback.inject(&f.director.fallback.Ingress.Counters, []byte("from the host"), ownPacket)
	wait.Until(t, "the packet was read", func() bool {
		f.director.fallback.injected.mu.Lock()
		defer f.director.fallback.injected.mu.Unlock()
		return len(f.director.fallback.injected.packets[ownPacket]) == 0
	})
	if n := f.director.fallback.Egress.Dropped(gateway.Panic); n != 0 {
		t.Errorf("%d panics", n)
	}
}
