package tun

import (
	"testing"

	"strait.dev/strait/test/wait"
)

// What a packet says about the segments of a flow goes to all remote gateways that can be reached.
func TestHintsGoToTheOtherRemoteGatewaysThatAreUp(t *testing.T) {
	t.Parallel()
	a, active, standby := trio(t)
	defer a.fabric.Close()
	defer active.fabric.Close()
	others := func() map[*Device][]*Device {
		all := make(map[*Device][]*Device)
		for _, l := range a.fabric.links.all() {
			all[l.tun] = l.tun.route.Load().others
		}
		return all
	}
	links := a.fabric.links.all()
	for i, l := range links {
		other := links[1-i].tun
		if o := others()[l.tun]; len(o) != 1 || o[0] != other {
			t.Errorf("link %d shares hints with %v, want %p", i, o, other)
		}
	}

	standby.fabric.Close()
	wait.Until(t, "no link shares hints with the one that is down", func() bool {
		for _, o := range others() {
			if len(o) != 0 {
				return false
			}
		}
		return true
	})
}

func TestAHintIsQueuedForEachOtherGateway(t *testing.T) {
	t.Parallel()
	a := newEnd(t, "10.71.0.0/16")
	defer a.fabric.Close()
	d := a.fabric.director.fallback
	other, another := new(Device), new(Device)
	r := &reader{device: d, egress: d.Egress, route: &route{carrier: d, others: []*Device{other, another}}}
	for _, to := range []*Device{other, another} {
		to.poller = d.poller
	}
	r.shareHint(nil)
	r.shareHint([]byte("hint"))
	for i, to := range []*Device{other, another} {
		bufs, sizes := [][]byte{make([]byte, 64), make([]byte, 64)}, make([]int, 2)
		if n := to.injected.take(bufs, sizes, 0); n != 1 || string(bufs[0][:sizes[0]]) != "hint" {
			t.Errorf("device %d: %d packets, %q", i, n, bufs[0][:sizes[0]])
		}
	}
}
