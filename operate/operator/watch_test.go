package operator

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestChangesAreThoseOfStatesAndNotOfTimes(t *testing.T) {
	link := func(remote string, up bool, rtt time.Duration) Link {
		return Link{Local: "a-0", Remote: remote, Up: up, RTT: &metav1.Duration{Duration: rtt}}
	}
	ready := &Report{Peerings: []PeeringReport{{
		Name: "b", Ready: true, MTU: 1390,
		Stages: []Stage{{"probes", Reached, "Up", "1 link is up"}},
		Links:  []Link{link("b-0", true, time.Millisecond)},
	}}}
	for name, c := range map[string]struct {
		before, after *Report
		want          []string
	}{
		"the first report": {nil, ready, []string{"Peering b: ready", "Peering b: link a-0 to b-0 is up"}},
		"another round trip and message": {ready, &Report{Peerings: []PeeringReport{{
			Name: "b", Ready: true, MTU: 1390,
			Stages: []Stage{{"probes", Reached, "Up", "1 link has been up for 4 s"}},
			Links:  []Link{link("b-0", true, 7*time.Millisecond)},
		}}}, nil},
		"a link goes down and another comes": {ready, &Report{Peerings: []PeeringReport{{
			Name: "b", Missing: "no link is up: look at the firewall", MTU: 1280,
			Stages: []Stage{{"probes", Failed, "Down", "no link is up"}},
			Links:  []Link{link("b-0", false, time.Millisecond), link("b-1", false, time.Millisecond)},
		}}}, []string{
			"Peering b: not ready: no link is up: look at the firewall", "Peering b: MTU 1280", "Peering b: ✗ probes: no link is up",
			"Peering b: link a-0 to b-0 is down", "Peering b: link a-0 to b-1 is down",
		}},
		"a link is gone": {ready, &Report{Peerings: []PeeringReport{{Name: "b", Ready: true, MTU: 1390, Stages: ready.Peerings[0].Stages}}},
			[]string{"Peering b: link a-0 to b-0 is gone"}},
		"the peering is gone": {ready, &Report{}, []string{"Peering b: deleted"}},
	} {
		if got := Changes(c.before, c.after); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestAWatchOutlivesAnAPIServerThatIsAwayAndEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, c := clusterOf(t, "testdata/ready.yaml")
		ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second)
		defer cancel()
		reads := 0
		err := Watch(ctx, c, nil, func(r *Report, err error) error {
			if reads++; r == nil && err == nil {
				t.Error("neither a report nor an error")
			}
			return nil
		})
		if reads != 4 || !errors.Is(err, context.DeadlineExceeded) { // at 0, 2, 4 and 6 s
			t.Errorf("%d reads, ended with %v", reads, err)
		}
		if err := Watch(t.Context(), c, []string{"c"}, nil); err == nil || !strings.Contains(err.Error(), "Peering c does not exist") {
			t.Errorf("of a Peering that is not there it ends with %v", err)
		}
		full := errors.New("the disk is full")
		if err := Watch(t.Context(), c, nil, func(*Report, error) error { return full }); !errors.Is(err, full) {
			t.Errorf("when its output fails it ends with %v", err)
		}
	})
}
