package tun

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/packet"
	"strait.dev/strait/test/wait"
)

const streamPort = 6094

func (e *end) listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := e.fabric.Streams.Listen(streamPort)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// dial connects over the first link.
func (e *end) dial(t *testing.T) (net.Conn, error) {
	t.Helper()
	s := e.fabric.Status()[0]
	return e.fabric.Streams.Dial(t.Context(), s.OwnKey, s.RemoteKey, streamPort)
}

// echo answers every connection with what comes, until the listener is closed.
func echo(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(c, c); c.Close() }()
	}
}

func TestStreamsCrossALinkAndKnowIt(t *testing.T) {
	t.Parallel()
	a, b := joined(t)
	var longest atomic.Int64
	b.fabric.Gateway.SetTap(func(s gateway.Stage, ip []byte) {
		if s == gateway.FromTunnel && ip[0]>>4 == 6 && ip[6] == packet.ProtoTCP {
			longest.Store(max(longest.Load(), int64(len(ip))))
		}
	})
	l := b.listen(t)
	accepted := make(chan net.Conn, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			accepted <- c
		}
	}()
	there, err := a.dial(t)
	if err != nil {
		t.Fatal(err)
	}
	defer there.Close()
	here := <-accepted
	defer here.Close()

	id, ok := b.fabric.Streams.LinkOf(here)
	want := LinkIdentity{"a-0", "a-0", config.Key(publicKey(b.private)), config.Key(publicKey(a.private))}
	if !ok || id != want {
		t.Errorf("accepted over %+v, %v; want %+v", id, ok, want)
	}
	if id, ok := a.fabric.Streams.LinkOf(there); !ok || id.Name != "b-0" {
		t.Errorf("dialled over %+v, %v", id, ok)
	}

	sent := bytes.Repeat([]byte("stream"), 20000)
	go func() { _, _ = there.Write(sent); there.Close() }()
	got, err := io.ReadAll(here)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d arrived, %v", len(got), len(sent), err)
	}
	const options = 40 // the most that TCP keeps free for them
	if n := longest.Load(); n > testMTU || n < testMTU-options {
		t.Errorf("the longest segment was a packet of %d bytes, with an MTU of %d", n, testMTU)
	}
}

func TestListenersFollowLinks(t *testing.T) {
	t.Parallel()
	a, b := newEnd(t, "10.71.0.0/16"), newEnd(t, "10.72.0.0/16")
	defer a.fabric.Close()
	defer b.fabric.Close()
	l := b.listen(t) // before there is any link
	go echo(l)
	setLinks(t, a, a.link("b-0", b))
	setLinks(t, b, b.link("a-0", a))
	wait.Until(t, "the link is up", func() bool { return a.fabric.Status()[0].Up && b.fabric.Status()[0].Up })
	c, err := a.dial(t)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}

	// The link goes, and its connections with it.
	setLinks(t, a)
	if _, err := c.Write([]byte("x")); err == nil {
		t.Error("a connection outlives its link")
	}
	if _, ok := a.fabric.Streams.LinkOf(c); ok {
		t.Error("a connection still has its link")
	}
}

func TestConnectionsAreRefusedAfterTheListenerIsClosed(t *testing.T) {
	t.Parallel()
	a, b := joined(t)
	l := b.listen(t)
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept ended with %v", err)
	}
	if c, err := a.dial(t); err == nil {
		c.Close()
		t.Error("connected")
	}
	go echo(b.listen(t)) // the port is free again
	c, err := a.dial(t)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestDiallingALinkThatIsNotThereSaysSo(t *testing.T) {
	t.Parallel()
	a, _ := joined(t)
	_, err := a.fabric.Streams.Dial(t.Context(), config.Key{1}, config.Key{2}, streamPort)
	if err == nil || err.Error() != "no link has these keys: the link may have been removed" {
		t.Error(err)
	}
}

// The peer of one link sends to the address of another link's end: no connection, for
// the answers would go elsewhere.
func TestStreamsBelongToBothEndsOfOneLink(t *testing.T) {
	t.Parallel()
	a, b := newEnd(t, "10.71.0.0/16"), newEnd(t, "10.72.0.0/16")
	defer a.fabric.Close()
	defer b.fabric.Close()
	other := &end{private: newKey(), port: b.port} // b's own key for another peer
	third := &end{private: newKey(), port: 9}
	setLinks(t, a, a.link("b-0", b))
	setLinks(t, b, b.link("a-0", a), other.link("c-0", third))
	go echo(b.listen(t))
	wait.Until(t, "the link is up", func() bool { return a.fabric.Status()[0].Up })

	var answers atomic.Int64
	right, wrong := linkAddress(publicKey(b.private)), linkAddress(publicKey(other.private))
	a.fabric.Gateway.SetTap(func(s gateway.Stage, ip []byte) {
		src, _ := addresses(ip)
		if s == gateway.FromTunnel && src == wrong {
			t.Error("answered from the end of another link")
		}
		if s == gateway.FromTunnel && src == right && ip[6] == packet.ProtoTCP {
			answers.Add(1)
		}
	})
	l := a.fabric.links.all()[0]
	for _, to := range []netip.Addr{wrong, right} {
		l.tun.inject(&l.tun.Ingress.Counters, synPacket(l.own, to), ownPacket)
	}
	wait.Until(t, "the good question is answered", func() bool { return answers.Load() > 0 })
}

// Only far ends of links can connect to the streams' port: nodes and pods
// of this cluster and those of the other, at all addresses of the gateway.
func TestStreamsAreOutOfReachForPodsAndNodes(t *testing.T) {
	t.Parallel()
	a, b := joined(t)
	go echo(a.listen(t))
	tcp := a.fabric.host.stack.Stats().TCP
	link := b.fabric.links.all()[0]
	ours := a.fabric.links.all()[0]
	dropped := func(r gateway.Reason) func() uint64 {
		return func() uint64 { return ours.tun.Egress.Dropped(r) + ours.tun.Ingress.Dropped(r) }
	}
	fromTunnel := func(ip []byte) { link.tun.inject(&link.tun.Ingress.Counters, ip, ownPacket) }
	fromNode := func(ip []byte) { a.send(t, ip) }
	const pod6, remote6, host6 = "fd00:10::5", "fd00:20::5", "fd00:80::1"
	for _, c := range []struct {
		name     string
		send     func([]byte)
		src, dst string
		refused  func() uint64 // counts when it has been refused
	}{
		{"a pod to the gateway", fromNode, "10.0.1.5", "10.80.0.1", dropped(gateway.GatewayPort)},
		{"a pod to the gateway, IPv6", fromNode, pod6, host6, dropped(gateway.GatewayPort)},
		{"a node to the gateway", fromNode, "10.80.0.11", "10.80.0.1", dropped(gateway.GatewayPort)},
		{"a pod to a link address", fromNode, pod6, ours.own.String(), dropped(gateway.Martian)},
		{"a pod that claims to be the far end", fromNode, link.own.String(), ours.own.String(), dropped(gateway.Martian)},
		{"a remote pod to the gateway", fromTunnel, "10.0.2.9", "10.70.0.1", tcp.ResetsSent.Value},
		{"a remote pod to a link address", fromTunnel, remote6, ours.own.String(), dropped(gateway.Martian)},
		{"the far end to the gateway", fromTunnel, link.own.String(), host6, dropped(gateway.Martian)},
	} {
		before := c.refused()
		c.send(synPacket(netip.MustParseAddr(c.src), netip.MustParseAddr(c.dst)))
		wait.Until(t, c.name+" is refused", func() bool { return c.refused() > before })
	}
	if n := tcp.PassiveConnectionOpenings.Value(); n != 0 {
		t.Errorf("%d connections were opened", n)
	}
}

// synPacket is a TCP SYN to the streams' port.
func synPacket(src, dst netip.Addr) []byte {
	u := make([]byte, packet.TCPHeaderLen)
	binary.BigEndian.PutUint16(u, 40000)
	binary.BigEndian.PutUint16(u[2:], streamPort)
	u[12], u[13] = 5<<4, 2
	binary.BigEndian.PutUint16(u[14:], 65535)
	binary.BigEndian.PutUint16(u[16:], ^packet.Sum(u, packet.PseudoSum(src, dst, packet.ProtoTCP, len(u))))
	if src.Is4() {
		return ipv4Packet(src, dst, packet.ProtoTCP, u)
	}
	b := make([]byte, packet.IPv6HeaderLen, packet.IPv6HeaderLen+len(u))
	b[0], b[6], b[7] = 0x60, packet.ProtoTCP, 64
	binary.BigEndian.PutUint16(b[4:], uint16(len(u)))
	copy(b[8:], src.AsSlice())
	copy(b[24:], dst.AsSlice())
	return append(b, u...)
}
