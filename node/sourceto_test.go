//go:build lab

package node

import (
	"net/netip"
	"testing"

	"strait.dev/strait/test/netns"
)

func TestTheSourceOfFramesFollowsTheRoutesOfTheNode(t *testing.T) {
	n := netns.New(t)
	n.IP(t, `link add name eth0 type bridge
addr add 192.0.2.21/24 dev eth0
link set dev eth0 up
link add name cni0 type bridge
addr add 10.0.1.1/24 dev cni0
link set dev cni0 up
route add 10.0.2.0/24 via 192.0.2.22`)
	var k *Kernel
	must(t, n.In(func() (err error) { k, err = Open(); return err }))
	t.Cleanup(k.Close)
	for to, want := range map[string]string{"192.0.2.22": "192.0.2.21", "10.0.1.9": "10.0.1.1", "10.0.2.9": "192.0.2.21"} {
		if from, err := k.SourceTo(netip.MustParseAddr(to)); err != nil || from.String() != want {
			t.Errorf("to %s: from %v (%v), want %s", to, from, err, want)
		}
	}
	if from, err := k.SourceTo(netip.MustParseAddr("203.0.113.1")); err == nil {
		t.Errorf("without a route, frames have source %v", from)
	}
}
