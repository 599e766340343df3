//go:build lab || nightly

package forwarding

import (
	"fmt"
	"net/netip"
	"testing"

	"strait.dev/strait/test/lab"
)

// The MSS of SYN and SYN-ACK, as they leave the tunnel, fits the tunnel: never larger, so
// that no connection depends on path MTU discovery, and not smaller than necessary.
func TestMSSOnTheWireFits(t *testing.T) {
	t.Parallel()
	for _, configured := range []int{0, lab.SmallMTU} {
		t.Run(fmt.Sprintf("mtu_%d", configured), func(t *testing.T) {
			top := lab.Build(t, lab.Options{Configure: func(_ *lab.Site, c *lab.GatewayConfig) { c.MTU = configured }})
			mtu := configured
			if mtu == 0 {
				mtu = lab.InnerMTU
			}
			lab.ForEachDirection(t, top, func(t *testing.T, w lab.Direction) {
				syns := lab.ListenOn(t, w.To, "eth0", fromAddress(w.SrcSeen))
				synACKs := lab.ListenOn(t, w.From, "eth0", fromAddress(w.Seen))
				l := w.To.ListenTCP(t, netip.AddrPortFrom(w.Real, 80))
				w.From.Dial(t, "tcp", netip.AddrPortFrom(w.Seen, 80))
				lab.AcceptedFrom(t, l)
				want := mtu - lab.IPHeader(w.Src) - 20
				for what, c := range map[string]*lab.Capture{"SYN": syns, "SYN-ACK": synACKs} {
					if _, mss, _ := lab.SYNMSS(c.First(t, what)); mss != want {
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
		p, _, ok := lab.SYNMSS(frame)
		return ok && p.Src == a
	}
}
