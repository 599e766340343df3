//go:build lab || nightly

package clusters

import (
	"strings"
	"testing"
	"time"
)

// 20 gateways of two clusters with two gateways each are killed, half of them while the API
// servers are away. Every flow is delivered again, and flows through other gateways lose
// nothing. The durations are no verdict here: they are printed.
func TestF1_EveryFlowSurvivesTheLossOfItsGateway(t *testing.T) {
	const kills = 20
	f := newFailover(t, 2, 40, 20*time.Millisecond)
	defer f.apiServersReturn()
	var samples []faultSample
	for i := range kills {
		if i == kills/2 {
			f.apiServersLeave()
		}
		s := f.measure(gatewayKilled)
		samples = append(samples, s)
		t.Log(s.String())
		if s.Down+s.OtherDown > 0 {
			t.Errorf("%d flows are not delivered again", s.Down+s.OtherDown)
		}
		if s.Ended+s.OtherEnded > 0 {
			t.Errorf("%d directions of TCP connections ended", s.Ended+s.OtherEnded)
		}
		if s.OtherLost > s.Overflow {
			t.Errorf("flows through other gateways lost %d messages, of which the kernel dropped at most %d for lack of CPU time", s.OtherLost, s.Overflow)
		}
	}
	var text strings.Builder
	must(t, faultTable(&text, samples))
	t.Logf("\n%s", &text)
}
