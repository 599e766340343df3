package underlay

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/netip"
	"testing"

	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"
	"golang.zx2c4.com/wireguard/tun/tuntest"

	"strait.dev/strait/test/ports"
	"strait.dev/strait/test/wait"
)

// tunnel is one WireGuard device on a TUN made of channels.
type tunnel struct {
	*device.Device
	tun  *tuntest.ChannelTUN
	addr netip.Addr // the address behind it
}

func newKey(tb testing.TB) *ecdh.PrivateKey {
	tb.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// public is the public key of a private one.
func public(key *ecdh.PrivateKey) device.NoisePublicKey {
	return device.NoisePublicKey(key.PublicKey().Bytes())
}

func newTunnel(tb testing.TB, bind conn.Bind, addr string, key *ecdh.PrivateKey) *tunnel {
	tb.Helper()
	return newTunnelWith(tb, new(Window), bind, addr, key)
}

// newTunnelWith is newTunnel with a TUN that reports to a window.
func newTunnelWith(tb testing.TB, w *Window, bind conn.Bind, addr string, key *ecdh.PrivateKey) *tunnel {
	tb.Helper()
	t := &tunnel{tun: tuntest.NewChannelTUN(), addr: netip.MustParseAddr(addr)}
	t.Device = device.NewDevice(reporting{t.tun.TUN(), w}, bind, device.NewLogger(device.LogLevelError, addr+" "))
	tb.Cleanup(t.Close)
	t.set(tb, "private_key=%x\n", key.Bytes())
	return t
}

// reporting is a TUN that reports to a window.
type reporting struct {
	tun.Device
	window *Window
}

func (r reporting) Write(bufs [][]byte, offset int) (int, error) {
	r.window.Begin()
	defer r.window.End(bufs[len(bufs)-1])
	return r.Device.Write(bufs, offset)
}

func (t *tunnel) set(tb testing.TB, format string, args ...any) {
	tb.Helper()
	if err := t.IpcSet(fmt.Sprintf(format, args...)); err != nil {
		tb.Fatal(err)
	}
}

// up opens the tunnel and returns its UDP port.
func (t *tunnel) up(tb testing.TB) (port int) {
	tb.Helper()
	if err := t.Up(); err != nil {
		tb.Fatal(err)
	}
	state, err := t.IpcGet()
	if err != nil {
		tb.Fatal(err)
	}
	for line := range bytes.Lines([]byte(state)) {
		fmt.Sscanf(string(line), "listen_port=%d", &port)
	}
	return port
}

// peer makes t expect another tunnel, at a port if one is given.
func (t *tunnel) peer(tb testing.TB, other *tunnel, key *ecdh.PrivateKey, host string, port int) {
	tb.Helper()
	t.set(tb, "public_key=%s\nallowed_ip=%s/32\n", hex.EncodeToString(key.PublicKey().Bytes()), other.addr)
	if port != 0 {
		t.set(tb, "public_key=%s\nendpoint=%s:%d\n", hex.EncodeToString(key.PublicKey().Bytes()), host, port)
	}
}

// talks sends a packet from one tunnel and waits for it at the other.
func talks(tb testing.TB, from, to *tunnel) {
	tb.Helper()
	packet := tuntest.Ping(to.addr, from.addr)
	from.tun.Outbound <- packet
	if got := <-to.tun.Inbound; !bytes.Equal(got, packet) {
		tb.Errorf("%s received %x, want %x", to.addr, got, packet)
	}
}

func TestWireGuardTalksOverOurBind(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		if host == "[::1]" {
			open(t, loopback6, Options{}) // skips without IPv6
		}
		keyA, keyB := newKey(t), newKey(t)
		a := newTunnel(t, NewMux(Options{}).Link(public(keyA), public(keyB), nil), "10.9.0.1", keyA)
		b := newTunnel(t, NewMux(Options{}).Link(public(keyB), public(keyA), nil), "10.9.0.2", keyB)
		portB := b.up(t)
		a.set(t, "listen_port=%d\n", ports.Free(t, 1)[0]) // which stays free while it is closed
		a.up(t)
		a.peer(t, b, keyB, host, portB)
		b.peer(t, a, keyA, "", 0)
		for range 20 {
			talks(t, a, b)
			talks(t, b, a)
		}
		if err := a.BindUpdate(); err != nil { // closes and opens on the same port
			t.Fatal(err)
		}
		talks(t, a, b)
		talks(t, b, a)
	}
}

// Packets and keepalives, which WireGuard does not report, go to a link with a window, more than it remembers. Whenever a packet
// has come out, none of them seems to be pending.
func TestAWindowFollowsWhatWireGuardDecrypts(t *testing.T) {
	t.Parallel()
	keyA, keyB, w := newKey(t), newKey(t), new(Window)
	a := newTunnel(t, NewMux(Options{}).Link(public(keyA), public(keyB), nil), "10.9.0.1", keyA)
	b := newTunnelWith(t, w, NewMux(Options{}).Link(public(keyB), public(keyA), w), "10.9.0.2", keyB)
	a.up(t)
	a.peer(t, b, keyB, "127.0.0.1", b.up(t))
	b.peer(t, a, keyA, "", 0)
	peer := a.LookupPeer(public(keyB))
	for range windowSize * 5 / 4 {
		talks(t, a, b)
		peer.SendKeepalive()
	}
	talks(t, a, b)
	wait.Until(t, "nothing seems to be pending", func() bool { return w.finished.Load() == w.handed.Load() })
	if n := w.handed.Load(); n < windowSize*2 {
		t.Errorf("only %d messages were passed on", n)
	}
}

// TestWireGuardTalksToItsOwnBind lets StdNetBind call us: it reports port 0 on a kernel
// without IPv6, so it could not be called there.
func TestWireGuardTalksToItsOwnBind(t *testing.T) {
	t.Parallel()
	keyA, keyB := newKey(t), newKey(t)
	a := newTunnel(t, NewMux(Options{}).Link(public(keyA), public(keyB), nil), "10.9.0.1", keyA)
	b := newTunnel(t, conn.NewStdNetBind(), "10.9.0.2", keyB)
	port := a.up(t)
	b.up(t)
	a.peer(t, b, keyB, "", 0)
	b.peer(t, a, keyA, "127.0.0.1", port)
	talks(t, b, a)
	talks(t, a, b)
}

func TestLinksOfOneKeyShareAPort(t *testing.T) {
	t.Parallel()
	key := newKey(t)
	testSharedPort(t, key, key)
}

func TestLinksOfDifferentKeysShareAPort(t *testing.T) {
	t.Parallel()
	testSharedPort(t, newKey(t), newKey(t))
}

// testSharedPort joins two remotes with keys of their own to two devices that share a
// port. One remote calls, the other is called.
func testSharedPort(t *testing.T, own1, own2 *ecdh.PrivateKey) {
	key1, key2 := newKey(t), newKey(t)
	mux := NewMux(Options{})
	link1 := newTunnel(t, mux.Link(public(own1), public(key1), nil), "10.9.0.1", own1)
	link2 := newTunnel(t, mux.Link(public(own2), public(key2), nil), "10.9.1.1", own2)
	remote1 := newTunnel(t, NewMux(Options{}).Link(public(key1), public(own1), nil), "10.9.0.2", key1)
	remote2 := newTunnel(t, NewMux(Options{}).Link(public(key2), public(own2), nil), "10.9.1.2", key2)

	port := link1.up(t)
	link2.set(t, "listen_port=%d\n", port)
	if second := link2.up(t); second != port {
		t.Fatalf("ports %d and %d", port, second)
	}
	remote1.up(t)
	port2 := remote2.up(t)

	remote1.peer(t, link1, own1, "127.0.0.1", port)
	link1.peer(t, remote1, key1, "", 0)
	link2.peer(t, remote2, key2, "127.0.0.1", port2)
	remote2.peer(t, link2, own2, "", 0)

	for range 10 {
		talks(t, remote1, link1)
		talks(t, link1, remote1)
		talks(t, link2, remote2)
		talks(t, remote2, link2)
	}
	link1.Close() // it read for both; the other goes on without a new handshake
	for range 10 {
		talks(t, remote2, link2)
		talks(t, link2, remote2)
	}
	if c := mux.Counters(); c.InboxFull != 0 || c.SendFailures != 0 || c.ReceiveFailures != 0 {
		t.Errorf("counted %+v", c)
	}
}
