package userspace

import (
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestFramesOfAFormerGatewayAreAcceptedDuringTheGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := New(6091, Grace)
		old, moved := Way{257, gatewayA}, Way{257, netip.MustParseAddr("192.0.2.12")}
		d := &device{way: old, former: map[Way]time.Time{}}
		d.outlet.Store(&outlet{way: old})
		e.devices["tap0"] = d
		e.update()
		takes := func(from netip.Addr) bool {
			to, _, why := (*e.table.Load()).accept(datagram(257, make([]byte, 14+20)), from)
			return to == d && why == NoReason
		}
		if !takes(old.Gateway) || takes(moved.Gateway) {
			t.Error("before the gateway moves, other frames are accepted")
		}
		e.mu.Lock()
		e.move(d, &outlet{way: moved})
		e.mu.Unlock()
		time.Sleep(Grace - 1)
		synctest.Wait()
		if !takes(old.Gateway) || !takes(moved.Gateway) {
			t.Error("during the grace period, frames of one address are rejected")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if takes(old.Gateway) || !takes(moved.Gateway) {
			t.Error("after the grace period, frames of the old address are accepted")
		}
	})
}

// The device sends to a gateway only once frames from there are accepted.
func TestAGatewayIsAcceptedBeforeFramesAreSentToIt(t *testing.T) {
	t.Parallel()
	e := New(6091, time.Hour)
	ways := []Way{{257, gatewayA}, {257, netip.MustParseAddr("192.0.2.12")}}
	d := &device{way: ways[0], former: map[Way]time.Time{}}
	d.outlet.Store(&outlet{way: ways[0]})
	e.devices["tap0"] = d
	e.update()
	var moving sync.WaitGroup
	ended := make(chan struct{})
	moving.Go(func() {
		defer close(ended)
		for i := range 5000 {
			e.mu.Lock()
			clear(d.former) // as if the grace period were over
			e.update()
			e.move(d, &outlet{way: ways[(i+1)%2]})
			e.mu.Unlock()
		}
	})
	for refused := 0; refused == 0; {
		select {
		case <-ended:
			return
		default:
		}
		to := d.outlet.Load()
		_, _, why := (*e.table.Load()).accept(datagram(257, make([]byte, 14+20)), to.way.Gateway)
		if d.outlet.Load() == to && why != NoReason {
			t.Errorf("a frame from the gateway to which the device sends is dropped: %v", why)
			refused++
		}
	}
	moving.Wait()
}
