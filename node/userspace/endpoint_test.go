package userspace

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

func TestFramesOfAFormerGatewayAreAcceptedDuringTheGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := New(6091)
		d := &device{former: map[Way]time.Time{}}
		old, moved := Way{257, gatewayA}, Way{257, netip.MustParseAddr("192.0.2.12")}
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
		e.update()
		e.mu.Unlock()
		time.Sleep(grace - 1)
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
