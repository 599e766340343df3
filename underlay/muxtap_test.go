package underlay

import (
	"bytes"
	"net/netip"
	"testing"

	"strait.dev/strait/internal/raceflag"
)

func TestATapSeesSentAndReceivedDatagramsUntilItIsRemoved(t *testing.T) {
	t.Parallel()
	m, far := NewMux(Options{}), NewMux(Options{})
	near, peer := openLink(t, m.Link(anyKey, otherKey, nil), 0), openLink(t, far.Link(anyKey, otherKey, nil), 0)
	type sighting struct {
		sent                  bool
		localPort, remotePort uint16
		payload               string
	}
	seen := make(chan sighting, 10)
	m.SetTap(func(sent bool, local, remote netip.AddrPort, datagram []byte) {
		if !local.Addr().Is4() || remote.Addr() != netip.MustParseAddr("127.0.0.1") {
			t.Errorf("between %v and %v", local, remote)
		}
		seen <- sighting{sent, local.Port(), remote.Port(), string(datagram)}
	})
	exchange := func() {
		near.send(t, peer.endpoint(t, "127.0.0.1"), []byte("out"), []byte("more"))
		peer.next(t, 2)
		peer.send(t, near.endpoint(t, "127.0.0.1"), []byte("back"))
		near.next(t, 1)
	}
	exchange()
	for _, want := range []sighting{{true, near.port, peer.port, "out"}, {true, near.port, peer.port, "more"}, {false, near.port, peer.port, "back"}} {
		if got := <-seen; got != want {
			t.Errorf("saw %+v, want %+v", got, want)
		}
	}
	m.SetTap(nil)
	exchange()
	if len(seen) > 0 {
		t.Errorf("saw %+v afterwards", <-seen)
	}
}

func TestTappingDoesNotAllocate(t *testing.T) {
	if raceflag.Enabled {
		t.Skip("the race detector allocates; run without -race")
	}
	m := NewMux(Options{})
	one, two := openLink(t, m.Link(anyKey, otherKey, nil), 0), openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0)
	count := 0
	m.SetTap(func(_ bool, _, _ netip.AddrPort, datagram []byte) { count += len(datagram) })
	bufs := [][]byte{bytes.Repeat([]byte("x"), 1000)}
	there, back := two.endpoint(t, "127.0.0.1"), one.endpoint(t, "127.0.0.1")
	if n := testing.AllocsPerRun(100, func() {
		if one.Send(bufs, there) != nil || two.Send(bufs, back) != nil {
			t.Fatal("not sent")
		}
		if _, err := one.receive(one.packets, one.sizes, one.senders); err != nil {
			t.Fatal(err)
		}
	}); n != 0 || count < 200_000 {
		t.Errorf("%v allocations for a datagram each way; %d bytes seen", n, count)
	}
}
