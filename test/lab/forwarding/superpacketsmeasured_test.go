//go:build nightly

package forwarding

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"strait.dev/strait/test/lab"
)

// What it costs that packets return through another gateway: throughput of bulk TCP over two gateways, in turns with
// that of a pair of which one carries both directions, for paths beyond the far gateway that carry less and for nodes
// that hand over super-packets or segments.
func TestBulkTCPThroughTwoGatewaysMeasured(t *testing.T) {
	const pairs, size = 15, 64 << 20
	for _, superPackets := range []bool{true, false} {
		for _, mtu := range []int{lab.LinkMTU, 1300, 1280, 1000} {
			t.Run(fmt.Sprintf("super-packets=%t/mtu=%d", superPackets, mtu), func(t *testing.T) {
				send := func(top *lab.Topology) func() float64 {
					top.B.Pod.IP(t, fmt.Sprintf("link set eth0 mtu %d", mtu))
					w := lab.NewDirection(top.A, top.B, top.A.Pod4, top.B.Pod4)
					l := w.To.ListenTCP(t, netip.AddrPortFrom(w.Real, 5001))
					go lab.ServeDigests(l)
					return func() float64 {
						conn := w.From.Dial(t, "tcp", netip.AddrPortFrom(w.Seen, 5001))
						defer conn.Close()
						started := time.Now()
						if err := lab.SendChecked(conn, 1, size); err != nil {
							t.Fatal(err)
						}
						return 8 * size / 1e6 / time.Since(started).Seconds()
					}
				}
				through := [2]func() float64{send(wireTwoGateways(t, superPackets, "a-0")), send(wireTwoGateways(t, superPackets, "a-1"))}
				var rates [2][]float64
				var ratios []float64
				for i := range pairs {
					var now [2]float64
					for _, at := range []int{i % 2, 1 - i%2} { // the order alternates
						now[at] = through[at]()
						rates[at] = append(rates[at], now[at])
					}
					ratios = append(ratios, now[1]/now[0])
				}
				for _, s := range [][]float64{rates[0], rates[1], ratios} {
					slices.Sort(s)
				}
				t.Logf("Mbit/s through one gateway %.0f, through two %.0f: ratio of a pair %.3f (%.3f to %.3f; quartiles of %d)",
					rates[0][pairs/2], rates[1][pairs/2], ratios[pairs/2], ratios[pairs/4], ratios[3*pairs/4], pairs)
			})
		}
	}
}
