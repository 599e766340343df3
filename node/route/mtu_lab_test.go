//go:build lab || nightly

package route

import (
	"net/netip"
	"testing"

	"strait.dev/strait/test/netns"
)

// Cilium and other network plugins set the MTU of routes in pods below that of the interface.
func TestMTUIsThatOfTheRouteNotOfErrors(t *testing.T) {
	t.Parallel()
	n := netns.New(t)
	n.IP(t, `link add eth0 type veth peer name peer
link set dev peer up
link set dev eth0 mtu 1500 up
addr add 192.0.2.2/24 dev eth0
addr add 2001:db8::2/64 dev eth0 nodad
route add default via 192.0.2.1 mtu 1450
route add default via 2001:db8::1 mtu 1430
route add 198.51.100.0/24 via 192.0.2.1`)
	for to, want := range map[string]int{
		"203.0.113.9": 1450, "2001:db8:1::9": 1430,
		"192.0.2.9": 0, "198.51.100.9": 0, "2001:db8::9": 0, // as the interface
		"127.0.0.1": 0,
	} {
		var got int
		if err := n.In(func() error { got = MTU(netip.MustParseAddr(to)); return nil }); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("the route to %s has the MTU %d, want %d", to, got, want)
		}
	}
	none := netns.New(t)
	if err := none.In(func() error {
		if got := MTU(netip.MustParseAddr("203.0.113.9")); got != 0 {
			t.Errorf("without a route, the MTU is %d", got)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
