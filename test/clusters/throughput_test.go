//go:build nightly

package clusters

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/bench/result"
	"strait.dev/strait/test/program"
)

const (
	// excess is how much more is offered to limited gateways than one has just carried: also those with the fewest flows are
	// busy, even if the machine has become faster, and the sender leaves the processors to them.
	excess = 1.4
	// flooded is how long a rate is measured: some periods in which the kernel limits CPU time, and no longer than the machine
	// stays equally fast.
	flooded = time.Second
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
// as many pairs of clusters that have one gateway each, and with one of these pairs. All of them run all the time, and
// are flooded in turn, for a second each.
func (r *throughputRun) measureRates(t *testing.T) {
	rounds := setting(t, "THROUGHPUT_ROUNDS", 9)
	withPairs(t, nil, maxGateways, func(t *testing.T, apart []*flood) {
		for gateways := 1; gateways <= maxGateways; gateways++ {
			t.Run(fmt.Sprintf("gateways=%d", gateways), func(t *testing.T) {
				f := newFailover(t, 1+maxGateways, gateways, 8, time.Second)
				defer f.apiServersReturn()
				f.apiServersLeave()
				time.Sleep(retryRest)
				c := &comparison{together: newFlood(f), apart: apart[:gateways]}
				c.settled = c.helperChanges()
				for _, size := range floodSizes {
					r.measure(t, c, size, rounds)
				}
			})
		}
	})
}

// withPairs starts so many pairs of clusters with one gateway each, which have nothing in common.
func withPairs(t *testing.T, pairs []*flood, count int, measure func(t *testing.T, pairs []*flood)) {
	if len(pairs) == count {
		measure(t, pairs)
		return
	}
	t.Run(fmt.Sprintf("pair=%d", 1+len(pairs)), func(t *testing.T) {
		f := newFailover(t, 2, 1, 8, time.Second)
		defer f.apiServersReturn()
		f.apiServersLeave()
		withPairs(t, append(pairs, newFlood(f)), count, measure)
	})
}

// comparison is what is compared: the gateways of two clusters, as many that are apart, and the first of these.
type comparison struct {
	together *flood
	apart    []*flood

	settled   int // changes of node helpers when flows were last spread evenly
	disturbed int // rounds that were repeated
}

// measure measures datagrams of a size, without the limit and with it.
func (r *throughputRun) measure(t *testing.T, c *comparison, size, rounds int) {
	gateways := len(c.apart)
	c.limit(t, 0)
	for i := range max(rounds/3, 1) {
		s := throughputSample{Gateways: gateways, Size: size, rates: c.round(t, i, size, r.Load)}
		r.Loaded = append(r.Loaded, s)
		t.Logf("%d gateways, %d bytes: %.1f %% of %.0f datagrams/s with %.2f CPU-s/GB; apart %.2f, one %.2f",
			gateways, size, 100*s.Together.Rate/s.Together.Offered, s.Together.Offered, s.Together.cpuPerGB(size), s.Apart.cpuPerGB(size), s.One.cpuPerGB(size))
	}
	c.limit(t, r.CPUs)
	one := carry(t, c.apart[:1], size, 400_000*r.CPUs).Rate
	for i := 0; i < rounds; i++ {
		c.limit(t, r.CPUs) // anew: it matters which gateways get their CPU time at once
		s := throughputSample{Gateways: gateways, Size: size, rates: c.round(t, i, size, excess*one)}
		one = s.One.Rate
		busy := s.Together.CPU / (r.CPUs * float64(2*gateways))
		t.Logf("%d gateways, %d bytes: limited %.0f datagrams/s, %.0f %% busy, machine %.0f %% idle; %.2f x apart (machine %.0f %% idle), %.2f x one",
			gateways, size, s.Together.Rate, 100*busy, 100*s.Together.Idle, s.Together.Rate/s.Apart.Rate, 100*s.Apart.Idle, s.Together.Rate/s.One.Rate)
		if busy < 0.9 {
			c.together.f.tellState()
		}
		if changes := c.helperChanges() - c.settled; changes > 0 {
			if c.disturbed++; c.disturbed > maxDisturbed {
				t.Errorf("node helpers moved flows in %d rounds: this number of gateways is not measured further", c.disturbed)
				return
			}
			t.Logf("node helpers changed the kernel %d times: the round is repeated after a rest", changes)
			time.Sleep(groupRest)
			c.together.f.settle()
			c.settled = c.helperChanges()
			i--
			continue
		}
		r.Limited = append(r.Limited, s)
	}
}

// round floods all in turn, with so many datagrams per second for each gateway, in every second round in the other order.
func (c *comparison) round(t *testing.T, number, size int, rate float64) (r rates) {
	all := rate * float64(len(c.apart))
	turns := []func(){
		func() { r.Together = carry(t, []*flood{c.together}, size, all) },
		func() { r.Apart = carry(t, c.apart, size, all) },
		func() { r.One = carry(t, c.apart[:1], size, rate) },
	}
	if number%2 == 1 {
		slices.Reverse(turns)
	}
	for _, turn := range turns {
		turn()
	}
	return r
}

// limit holds each gateway to a part of a CPU; 0 = no limit.
func (c *comparison) limit(t *testing.T, cpus float64) {
	t.Helper()
	for _, fl := range append([]*flood{c.together}, c.apart...) {
		for _, g := range fl.f.gateways {
			program.LimitCPU(t, g.PID(), cpus)
		}
	}
}

// helperChanges returns how often the node helpers have changed their kernels: what gateways carry then is that of fewer
// gateways.
func (c *comparison) helperChanges() int {
	count := c.together.f.helperChanges()
	for _, fl := range c.apart {
		count += fl.f.helperChanges()
	}
	return count
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
