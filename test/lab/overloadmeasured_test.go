//go:build nightly

package lab

import (
	"fmt"
	"testing"
	"time"
)

// TestF19_OverloadMeasured floods gateways with up to 20 times what they can carry: the link stays up,
// without a new handshake; probes, the traffic of another node, and the throughput afterwards.
func TestF19_OverloadMeasured(t *testing.T) {
	for _, cpus := range []float64{0.2, 0.5} {
		t.Run(fmt.Sprintf("cpus=%v", cpus), func(t *testing.T) {
			o := newOverload(t, cpus, time.Minute)
			for _, factor := range []int{4, 20} {
				f := o.run(factor)
				if f.downs > f.gaps { // a process that does not run answers nothing
					t.Errorf("%d x: the link was down %d times, with %d gaps of a process", factor, f.downs, f.gaps)
				}
				if f.renewed() {
					t.Errorf("%d x: a new handshake after %.0f s", factor, f.replaced)
				}
				if f.probesLost > 0.01*f.probesSent {
					t.Errorf("%d x: %.0f of %.0f probes lost", factor, f.probesLost, f.probesSent)
				}
				if f.flowLost > 0.01 {
					t.Errorf("%d x: another node lost %.1f %% of 10 packets a second", factor, 100*f.flowLost)
				}
				if f.recovered < 0.95 {
					t.Errorf("%d x: %.0f %% of the throughput one second afterwards", factor, 100*f.recovered)
				}
			}
		})
	}
}
