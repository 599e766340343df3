//go:build nightly

package clusters

import (
	"cmp"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/bench/result"
)

// setting returns a number from the environment.
func setting(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s must be a number, and is %q", name, text)
	}
	return n
}

// TestF1_F4_F22_FailoverMeasured measures every fault with two and three gateways in each
// cluster, half of the faults while the API servers are away. `make failover` runs it for the
// documentation, with FAILOVER_RESULTS, the file of the results.
func TestF1_F4_F22_FailoverMeasured(t *testing.T) {
	kills, others := setting(t, "FAILOVER_KILLS", 10), setting(t, "FAILOVER_FAULTS", 2)
	run := &failoverRun{
		Time: time.Now().UTC().Truncate(time.Second), Machine: result.ThisMachine(os.Getenv("FAILOVER_VERSION")),
		Flows: setting(t, "FAILOVER_FLOWS", 200), Period: setting(t, "FAILOVER_PERIOD_MS", 20),
	}
	defer func() {
		var text strings.Builder
		must(t, faultTable(&text, run.Faults))
		t.Logf("\n%s", &text)
		if name := os.Getenv("FAILOVER_RESULTS"); name != "" {
			must(t, run.write(name))
			must(t, run.writePage(strings.TrimSuffix(name, ".json")+".md"))
		}
	}()
	for _, replicas := range strings.Fields(cmp.Or(os.Getenv("FAILOVER_REPLICAS"), "2 3")) {
		n, err := strconv.Atoi(replicas)
		must(t, err)
		t.Run("replicas="+replicas, func(t *testing.T) { run.measureFaults(t, n, kills, others) })
	}
}

// measureFaults measures so many kills of gateways, and so many of each other fault.
func (r *failoverRun) measureFaults(t *testing.T, replicas, kills, others int) {
	f := newFailover(t, replicas+1, replicas, r.Flows, time.Duration(r.Period)*time.Millisecond)
	defer f.apiServersReturn()
	kinds := []*faultKind{gatewayKilled, gatewayStopped, nodeCutOff, linksDown, linkCutOneWay}
	total, done := kills+(len(kinds)-1)*others, 0
	for _, away := range []bool{false, true} {
		if away {
			f.apiServersLeave()
		}
		for _, kind := range kinds {
			count := others
			if kind == gatewayKilled {
				count = kills
			}
			for i := range count {
				if (i < (count+1)/2) == away {
					continue // of the other half
				}
				s := f.measure(kind)
				r.Faults = append(r.Faults, s)
				done++
				t.Logf("%d of %d: %s", done, total, s.String())
				if s.Down+s.OtherDown > 0 {
					t.Errorf("%d flows are not delivered again", s.Down+s.OtherDown)
				}
			}
		}
	}
}
