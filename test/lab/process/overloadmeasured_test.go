//go:build nightly

package process

import (
	"fmt"
	"testing"
	"time"
)

// TestF19_OverloadMeasured floods gateways with up to 20 times what they can carry: the link stays up,
// without a new handshake; probes, the traffic of another node, and the throughput afterwards.
//
// On two processors, the half that two gateways leave makes at most 14 times what they carry as single datagrams. Those of a
// node on the machine of its gateway arrive 44 at a time.
func TestF19_OverloadMeasured(t *testing.T) {
	for _, c := range []struct {
		cpus        float64
		sameMachine bool
		factors     []int
	}{
		{0.2, false, []int{4, 20}},
		{0.5, false, []int{4}},
		{0.5, true, []int{4, 20}},
	} {
		t.Run(fmt.Sprintf("cpus=%v/same-machine=%t", c.cpus, c.sameMachine), func(t *testing.T) {
			o := newOverload(t, c.cpus, c.sameMachine, time.Minute)
			for _, factor := range c.factors {
				o.check(factor)
			}
		})
	}
}

// check floods the gateways with a multiple of what they can carry.
func (o *overload) check(factor int) {
	t, f := o.t, o.run(factor)
	if f.offered < 0.9*float64(factor) {
		t.Errorf("%d x: the machine offered %.1f x", factor, f.offered)
	}
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
