//go:build lab

package underlay

import (
	"net/netip"
	"testing"

	"strait.dev/strait/test/netns"
)

func TestT8_CookiesForForgedAddressesLeaveQueueSpaceForPeers(t *testing.T) {
	n := netns.New(t)
	addAddress(t, n, netip.MustParseAddr("127.0.0.1"))
	n.IP(t, "link add wire0 type veth peer name wire1\naddr add 192.0.2.1/24 dev wire0\nlink set wire0 up\nlink set wire1 up")
	m := NewMux(Options{})
	var peer, link *opened
	if err := n.In(func() error {
		peer, link = openLink(t, NewMux(Options{}).Link(anyKey, otherKey, nil), 0), openLink(t, m.Link(anyKey, otherKey, nil), 0)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	o := m.open.Load()
	port := o.sessions[0].port
	for i := range 20_000 {
		from := newEndpoint(netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(2 + i%250)}), 51820), netip.Addr{})
		port.challenge(&o.byKey[0][0].link.cookies, initiation(5), from, from.DstToBytes(), m)
	}
	if !port.sockets()[0].crowded() {
		t.Error("no cookie waits: this tests nothing")
	}
	bufs := train()
	link.send(t, peer.endpoint(t, "127.0.0.1"), bufs...)
	equal(t, peer.next(t, len(bufs)), bufs)
	if c := m.Counters(); c != (Counters{}) {
		t.Errorf("counted %+v", c)
	}
}
