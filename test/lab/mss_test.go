//go:build lab || nightly

package lab

import (
	"fmt"
	"net/netip"
	"testing"
)

// The MSS of SYN and SYN-ACK, as they leave the tunnel, fits the tunnel: never larger, so
// that no connection depends on path MTU discovery, and not smaller than necessary.
func TestMSSOnTheWireFits(t *testing.T) {
	t.Parallel()
	for _, configured := range []int{0, smallMTU} {
		t.Run(fmt.Sprintf("mtu_%d", configured), func(t *testing.T) {
			top := build(t, options{configure: func(_ *site, c *gatewayConfig) { c.MTU = configured }})
			mtu := configured
			if mtu == 0 {
				mtu = innerMTU
			}
			forEachDirection(t, top, func(t *testing.T, w direction) {
				syns := listenOn(t, w.to, "eth0", fromAddress(w.srcSeen))
				synACKs := listenOn(t, w.from, "eth0", fromAddress(w.seen))
				l := w.to.listenTCP(t, netip.AddrPortFrom(w.real, 80))
				w.from.dial(t, "tcp", netip.AddrPortFrom(w.seen, 80))
				acceptedFrom(t, l)
				want := mtu - ipHeader(w.src) - 20
				for what, c := range map[string]*capture{"SYN": syns, "SYN-ACK": synACKs} {
					if _, mss, _ := synMSS(c.first(t, what)); mss != want {
						t.Errorf("the MSS of the %s is %d, want %d", what, mss, want)
					}
				}
			})
		})
	}
}

// fromAddress matches SYNs and SYN-ACKs with an MSS from a.
func fromAddress(a netip.Addr) func([]byte) bool {
	return func(frame []byte) bool {
		p, _, ok := synMSS(frame)
		return ok && p.src == a
	}
}
