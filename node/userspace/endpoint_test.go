package userspace

import (
	"net/netip"
	"sync"
	"testing"
)

// The device sends to a gateway only once frames from there are accepted.
func TestAGatewayIsAcceptedBeforeFramesAreSentToIt(t *testing.T) {
	t.Parallel()
	e := New(6091)
	ways := []Way{{257, gatewayA}, {257, netip.MustParseAddr("192.0.2.12")}}
	d := &device{way: ways[0]}
	d.outlet.Store(&outlet{way: ways[0]})
	e.devices["tap0"] = d
	e.update()
	var moving sync.WaitGroup
	ended := make(chan struct{})
	moving.Go(func() {
		defer close(ended)
		for i := range 5000 {
			e.mu.Lock()
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
