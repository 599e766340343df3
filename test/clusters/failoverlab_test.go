//go:build lab || nightly

package clusters

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Gateways of two clusters with two gateways each are killed, half of them while the API
// servers are away. Gateways start again only after all flows are delivered again.
func TestF1_EveryFlowSurvivesTheLossOfItsGateway(t *testing.T) {
	survive(t, slices.Repeat([]*faultKind{gatewayKilled}, kills), kills)
}

// A gateway is stopped and continues, a node, a gateway and a cluster are cut off, and a link is
// cut in one direction, with and without API servers.
func TestF4_F22_EveryFlowSurvivesPausesAndPartitions(t *testing.T) {
	kinds := []*faultKind{gatewayStopped, nodeCutOff, linksDown, linkCutOneWay, clustersCutOff}
	survive(t, kinds, min(len(kinds), kills))
}

// survive checks that after each fault, first with the API servers and then the first few without, messages of every
// flow that are sent after the fault are delivered, without a new connection and before the fault is
// repaired, and that flows that do not use what failed lose nothing, unless another gateway has failed for
// its peers, too, because the machine is too slow. A node that is cut off may also be the one through which
// other gateways are reached. Durations are no verdict here, because other tests run at the same time: they
// are printed.
func survive(t *testing.T, faults []*faultKind, withoutServers int) {
	t.Helper()
	parallelUnlessTimed(t)
	f := newFailover(t, 3, 2, 40, 20*time.Millisecond)
	defer f.apiServersReturn()
	var samples []faultSample
	for _, away := range []bool{false, true} {
		if away {
			f.apiServersLeave()
			faults = faults[:withoutServers]
		}
		for _, kind := range faults {
			s := f.measure(kind)
			samples = append(samples, s)
			t.Log(s.String())
			if s.Down+s.OtherDown > 0 {
				t.Errorf("%d flows are not delivered again", s.Down+s.OtherDown)
			}
			if s.Ended+s.OtherEnded > 0 {
				t.Errorf("%d directions of TCP connections ended", s.Ended+s.OtherEnded)
			}
			if s.OtherLost > 0 && !kind.entry && s.Overflow+s.ProbesLost+s.LinksDown == 0 {
				t.Errorf("flows that did not use what failed lost %d messages", s.OtherLost)
			}
		}
	}
	var text strings.Builder
	must(t, faultTable(&text, samples))
	t.Logf("\n%s", &text)
}
