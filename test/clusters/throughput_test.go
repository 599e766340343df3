//go:build nightly

package clusters

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/bench/result"
	"strait.dev/strait/test/program"
)

const (
	// excess is how much more is offered to limited gateways than one has just carried: they are busy even if the machine has become
	// faster, and the sender leaves the processors to them.
	excess = 1.4
	// flooded is how long a rate is measured: some tens of the periods in which the kernel limits CPU time.
	flooded = 4 * time.Second
	// maxGateways is the greatest number of gateways that are measured.
	maxGateways = 4
	// maxDisturbed is how many rounds of a run are repeated because node helpers have moved flows since these were last spread
	// evenly: a gateway that was taken out gets few of them back.
	maxDisturbed = 5
	// groupRest is the time without floods after which nodes give all gateways equal parts of new flows again, also one that was
	// taken out: it gets the buckets that no packet has used for 120 s.
	groupRest = 125 * time.Second
	// retryRest is the time after which clients whose API server is away try no more often than those that lost theirs earlier.
	retryRest = 75 * time.Second
)

// floodSizes are the bytes of payload of the datagrams.
var floodSizes = []int{64, 1372}

// TestSeveralGatewaysMeasured measures what 1 to 4 gateways of each of two clusters carry, and how flows are spread over
// four. `make throughput` runs it for the documentation, with THROUGHPUT_RESULTS, the file of the results. THROUGHPUT_ROUNDS
// is how often each number of gateways is measured with little CPU time: a single round is off by a tenth or more. Without
// the limit a third of it is enough.
func TestSeveralGatewaysMeasured(t *testing.T) {
	run := &throughputRun{
		Time: time.Now().UTC().Truncate(time.Second), Machine: result.ThisMachine(os.Getenv("THROUGHPUT_VERSION")),
		Flows: floodFlows, Load: float64(setting(t, "THROUGHPUT_LOAD", 8000)), CPUs: float64(setting(t, "THROUGHPUT_MILLICPUS", 100)) / 1000,
	}
	defer func() {
		var text strings.Builder
		run.writeTable(&text)
		t.Logf("\n%s", &text)
		if name := os.Getenv("THROUGHPUT_RESULTS"); name != "" {
			must(t, run.write(name))
			must(t, run.writePage(strings.TrimSuffix(name, ".json")+".md"))
		}
	}()
	t.Run("rate", run.measureRates)
	t.Run("spread", run.measureSpread)
}

// measureRates measures the CPU time that gateways use without a limit, each with the same load, and what they carry with
// little CPU time. The API servers are away: the processors are for the gateways and the traffic.
//
// How much a gateway does in a second of CPU time depends on what else the machine runs, because programs share caches and
// memory, and on when: the machine may be a third slower some seconds later. So each number of gateways is compared with
// one gateway of each of two other clusters, with as many nodes, that is flooded at the same time, beside them.
func (r *throughputRun) measureRates(t *testing.T) {
	rounds := setting(t, "THROUGHPUT_ROUNDS", 9)
	beside := newFailover(t, 1+maxGateways, 1, 8, time.Second)
	defer beside.apiServersReturn()
	beside.apiServersLeave()
	one := newFlood(beside)
	for gateways := 1; gateways <= maxGateways; gateways++ {
		t.Run(fmt.Sprintf("gateways=%d", gateways), func(t *testing.T) {
			f := newFailover(t, 1+maxGateways, gateways, 8, time.Second)
			defer f.apiServersReturn()
			f.apiServersLeave()
			time.Sleep(retryRest)
			c := &comparison{some: newFlood(f), one: one}
			c.settled = c.helperChanges()
			for _, size := range floodSizes {
				r.measure(t, c, size, rounds)
			}
		})
	}
}

// comparison is what is compared: some gateways of each of two clusters, and one of each of two others.
type comparison struct {
	some, one *flood

	settled   int // changes of node helpers when flows were last spread evenly
	disturbed int // rounds that were repeated
}

// measure measures datagrams of a size, without the limit and with it.
func (r *throughputRun) measure(t *testing.T, c *comparison, size, rounds int) {
	gateways := len(c.some.gateways())
	c.limit(t, 0)
	for range max(rounds/3, 1) {
		s := c.sample(t, size, r.Load)
		r.Loaded = append(r.Loaded, s)
		t.Logf("%d gateways, %d bytes: %.1f %% of %.0f datagrams/s with %.2f CPU-s/GB; one %.2f",
			gateways, size, 100*s.Some.Rate/s.Some.Offered, s.Some.Offered, s.Some.cpuPerGB(size), s.One.cpuPerGB(size))
	}
	c.limit(t, r.CPUs)
	one := carry(t, size, 400_000*r.CPUs, c.one)[0].Rate
	for i := 0; i < rounds; i++ {
		c.limit(t, r.CPUs) // anew: it matters which gateways get their CPU time at once
		s := c.sample(t, size, excess*one)
		one = s.One.Rate
		busy := s.Some.CPU / (r.CPUs * float64(2*gateways))
		t.Logf("%d gateways, %d bytes: limited %.0f datagrams/s, %.0f %% busy, machine %.0f %% idle; %.2f x one",
			gateways, size, s.Some.Rate, 100*busy, 100*s.Some.Idle, s.Some.Rate/s.One.Rate)
		if busy < 0.9 {
			c.some.f.tellState()
		}
		if changes := c.helperChanges() - c.settled; changes > 0 {
			if c.disturbed++; c.disturbed > maxDisturbed {
				t.Errorf("node helpers moved flows in %d rounds: this number of gateways is not measured further", c.disturbed)
				return
			}
			t.Logf("node helpers changed the kernel %d times: the round is repeated after a rest", changes)
			time.Sleep(groupRest)
			c.some.f.settle()
			c.some.sort()
			c.settled = c.helperChanges()
			i--
			continue
		}
		r.Limited = append(r.Limited, s)
	}
}

// sample floods all at the same time, with so many datagrams per second for each gateway.
func (c *comparison) sample(t *testing.T, size int, rate float64) throughputSample {
	t.Helper()
	of := carry(t, size, rate, c.some, c.one)
	return throughputSample{Gateways: len(c.some.gateways()), Size: size, Some: of[0], One: of[1]}
}

// limit holds each gateway to a part of a CPU; 0 = no limit.
func (c *comparison) limit(t *testing.T, cpus float64) {
	t.Helper()
	for _, fl := range []*flood{c.some, c.one} {
		for _, g := range fl.f.gateways {
			program.LimitCPU(t, g.PID(), cpus)
		}
	}
}

// helperChanges returns how often the node helpers have changed their kernels: what gateways carry then is that of fewer
// gateways.
func (c *comparison) helperChanges() int {
	return c.some.f.helperChanges() + c.one.f.helperChanges()
}

// tellState logs what gateways and node helpers say: why some of the gateways have little to do in a flood.
func (f *failover) tellState() {
	f.t.Helper()
	for _, g := range f.gateways {
		up, err := g.links("up")
		active, _ := g.links("active")
		f.t.Logf("%s has the links %v and sends to %v, %v; it logged:\n%s", g.label(), up, active, err, lastLines(g.Log(), 10))
	}
	for _, c := range []*cluster{f.a, f.b} {
		for i, h := range c.helpers {
			f.t.Logf("the node helper %s/%s logged:\n%s", c.name, nodeName(i), lastLines(h.Log(), 10))
		}
	}
}

// lastLines returns the last lines of a text.
func lastLines(text string, count int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(len(lines)-count, 0):], "\n")
}
