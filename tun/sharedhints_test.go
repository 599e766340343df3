package tun

import (
	"slices"
	"testing"

	"strait.dev/strait/test/wait"
)

// What a packet says about the segments of a flow goes to all remote gateways that can be reached.
func TestHintsGoToTheOtherRemoteGatewaysThatAreUp(t *testing.T) {
	t.Parallel()
	a, active, standby := trio(t)
	defer a.fabric.Close()
	defer active.fabric.Close()
	links := a.fabric.links.all()
	if r := a.fabric.director.routing.Load().reachable; !slices.Equal(r, []*Device{links[0].tun, links[1].tun}) {
		t.Errorf("hints are shared with %v, want both links", r)
	}
	standby.fabric.Close()
	wait.Until(t, "no hint is shared with the link that is down", func() bool {
		return len(a.fabric.director.routing.Load().reachable) == 1
	})
}

func TestAHintIsQueuedForEachOtherGateway(t *testing.T) {
	t.Parallel()
	a := newEnd(t, "10.71.0.0/16")
	defer a.fabric.Close()
	d := a.fabric.director.fallback
	sender, other, another := new(Device), new(Device), new(Device)
	r := &reader{device: sender, egress: d.Egress, routing: &routing{reachable: []*Device{other, sender, another}}}
	for _, to := range []*Device{sender, other, another} {
		to.poller = d.poller
	}
	r.shareHint(nil, sender)
	r.shareHint([]byte("hint"), sender)
	if n := len(sender.injected.packets[handedOver]); n != 0 {
		t.Errorf("the link that sends the packet gets %d hints", n)
	}
	for i, to := range []*Device{other, another} {
		bufs, sizes := [][]byte{make([]byte, 64), make([]byte, 64)}, make([]int, 2)
		if n, _, _ := to.injected.take(bufs, sizes, 0, maxUnsent); n != 1 || string(bufs[0][:sizes[0]]) != "hint" {
			t.Errorf("device %d: %d packets, %q", i, n, bufs[0][:sizes[0]])
		}
	}
}
