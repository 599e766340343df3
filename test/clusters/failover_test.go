//go:build lab || nightly

package clusters

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/test/flows"
	"strait.dev/strait/test/netns"
)

// failover measures what faults of gateways cost the flows between two clusters. Each gateway
// has a node of its own; the flows begin and end on another node of each cluster, so that they
// can survive the loss of any gateway's node.
type failover struct {
	*pair
	t        *testing.T
	replicas int // gateways of each cluster
	gateways []*gatewayPod
	through  map[string]*netns.Namespace // of the gateways, by label
	ends     [2]flows.End                // of the flows, in clusters a and b
	flows    *flows.Set
	period   time.Duration
	spread   bool // nodes send flows to all gateways at once
	away     bool // the API servers
	random   *rand.Rand
}

// label names a gateway of any cluster.
func (g *gatewayPod) label() string { return g.c.name + "/" + g.name }

// newFailover joins two clusters with some gateways each, and starts flows between them. The
// test must call apiServersReturn before it ends.
func newFailover(t *testing.T, nodes, replicas, count int, period time.Duration) *failover {
	t.Helper()
	f := &failover{
		pair: newPairOf(t, nodes), t: t, replicas: replicas, period: period,
		through: map[string]*netns.Namespace{}, random: rand.New(rand.NewPCG(1, uint64(replicas))),
	}
	b, a := f.joinWith(t, replicas)
	for _, c := range []*cluster{f.a, f.b} {
		for _, g := range c.gateways {
			f.gateways = append(f.gateways, g)
			f.through[g.label()] = g.Namespace
		}
	}
	slices.SortFunc(f.gateways, func(a, b *gatewayPod) int { return strings.Compare(a.label(), b.label()) })
	for i := range flowAddresses {
		for _, c := range []*cluster{f.a, f.b} {
			c.pods[replicas].IP(t, fmt.Sprintf("addr add %s/24 dev eth0\naddr add %s/64 dev eth0 nodad", f.address(i), f.address6(i)))
		}
	}
	f.ends = [2]flows.End{f.end(f.a, b), f.end(f.b, a)}
	f.flows = flows.Start(t, f.ends, count, period)
	f.settle()
	f.spread = f.rebalance()
	t.Logf("nodes send flows to %d of %d gateways", f.forwarding(), len(f.gateways))
	return f
}

// flowAddresses is the number of addresses of each end and family: kernels may choose gateways
// by addresses only.
const flowAddresses = 32

// address and address6 are addresses of the ends, the same in both clusters.
func (f *failover) address(i int) string { return fmt.Sprintf("%s.%d", podNet(f.replicas), 100+i) }
func (f *failover) address6(i int) string {
	return fmt.Sprintf("%s::%x", podNet6(podNet(f.replicas)), 100+i)
}

// end returns the end of the flows in a cluster, which reaches the other one by a Peering.
func (f *failover) end(c *cluster, p *v1alpha1.Peering) flows.End {
	e := flows.End{Name: c.name, Namespace: c.pods[f.replicas]}
	for i := range flowAddresses {
		for family, address := range []string{f.address(i), f.address6(i)} {
			e.Local[family] = append(e.Local[family], netip.MustParseAddr(address))
			e.Remote[family] = append(e.Remote[family], netip.MustParseAddr(seen(f.t, p, address)))
		}
	}
	return e
}

// passing returns which flows pass each gateway, by the ID of the flow.
func (f *failover) passing() map[string][]bool {
	return f.flows.Passing(f.t, f.through, max(10, uint64(200*time.Millisecond/f.period)))
}

// settledPassing is passing when flows use the links that they prefer, and no node helper has moved flows meanwhile.
func (f *failover) settledPassing() map[string][]bool {
	f.t.Helper()
	var passing map[string][]bool
	within(f.t, 2*time.Minute, "no node moves flows", func() error {
		before := f.helperChanges()
		f.linksPreferred()
		passing = f.passing()
		if changes := f.helperChanges() - before; changes > 0 {
			return fmt.Errorf("node helpers changed the kernel %d times", changes)
		}
		return nil
	})
	return passing
}

// helperChanges returns how often node helpers have changed their kernels.
func (f *failover) helperChanges() (count int) {
	for _, c := range []*cluster{f.a, f.b} {
		for _, h := range c.helpers {
			count += strings.Count(h.Log(), "changed the kernel configuration")
		}
	}
	return count
}

// forwarding returns to how many gateways the nodes of their clusters send flows.
func (f *failover) forwarding() (count int) {
	passing := f.passing()
	for _, g := range f.gateways {
		if slices.ContainsFunc(f.flows.Flows, func(flow *flows.Flow) bool {
			return flow.From == g.c.name && passing[g.label()][flow.ID]
		}) {
			count++
		}
	}
	return count
}

const (
	// patience is how long a measurement waits for the flows to be delivered again.
	patience = time.Minute
	// downAfter is the time without a delivery after which a flow is down.
	downAfter = 150 * time.Millisecond
	// quiet is how long traffic is watched after all flows are delivered again.
	quiet = 300 * time.Millisecond
	// balanceTime is how long nodes may take to send new flows to a gateway that is back.
	balanceTime = 10 * time.Second
)

// settle waits until the clusters are as before any fault: all links are up, flows use those that they prefer, all
// flows are delivered, and nodes send flows to all gateways, if they ever did so. A link carries flows some time
// after it comes up; those that move to it later would be counted as using another one.
func (f *failover) settle() {
	f.t.Helper()
	f.linksPreferred()
	f.delivered()
	if f.spread {
		f.rebalance()
	}
}

// linksPreferred waits until all links are up, and each gateway sends to the one of its own ordinal.
func (f *failover) linksPreferred() {
	f.t.Helper()
	within(f.t, 2*time.Minute, "flows use the links that they prefer", func() error {
		for _, g := range f.gateways {
			up, err := g.links("up")
			if err != nil || len(up) < f.replicas {
				return fmt.Errorf("%s: %d of %d links are up: %w", g.label(), len(up), f.replicas, err)
			}
			active, err := g.links("active")
			if err != nil || len(active) != 1 || ordinal(active[0]) != ordinal(g.name) {
				return fmt.Errorf("%s sends to %v: %w", g.label(), active, err)
			}
		}
		return nil
	})
}

// ordinal returns the ordinal of a gateway, the end of its name.
func ordinal(gateway string) string { return gateway[strings.LastIndexByte(gateway, '-'):] }

// rebalance replaces all flows by new ones until nodes send some to every gateway. It reports
// whether they do so in time. Flows that exist need not move to a gateway that is back.
func (f *failover) rebalance() bool {
	f.t.Helper()
	for begun := time.Now(); time.Since(begun) < balanceTime; {
		f.flows.Renew()
		f.delivered()
		if f.forwarding() == len(f.gateways) {
			return true
		}
	}
	return false
}

// delivered waits until messages of all flows are delivered that are sent from now on.
func (f *failover) delivered() {
	f.t.Helper()
	mark := f.flows.Mark()
	within(f.t, 2*time.Minute, "all flows are delivered", func() error {
		if down := f.flows.Silent(mark, 1); len(down) > 0 {
			return fmt.Errorf("%d flows are down, one of them %s from %s", len(down), down[0].Class, down[0].From)
		}
		return nil
	})
}

// pause lets a fault last for some time and, where no time is measured, until all flows are delivered in
// spite of it.
func (f *failover) pause(d time.Duration) {
	f.t.Helper()
	time.Sleep(d)
	if !timely {
		f.delivered()
	}
}

// recover waits until the flows are delivered again, and returns those that are not. Where no time is
// measured it has no limit.
func (f *failover) recover() (down []*flows.Flow) {
	f.t.Helper()
	if !timely {
		f.delivered()
		f.delivered() // whatever got lost until now is counted
		return nil
	}
	time.Sleep(quiet)
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if down = f.flows.Down(downAfter); len(down) == 0 || time.Since(begun) > patience {
			break
		}
	}
	time.Sleep(quiet)
	return down
}

// links returns the remote gateways of the links that are up, or active.
func (g *gatewayPod) links(state string) (peers []string, err error) {
	text, _, err := g.get("/metrics")
	for _, m := range regexp.MustCompile(`(?m)^strait_link_`+state+`\{.*peer="([^"]*)".*\} 1$`).FindAllStringSubmatch(text, -1) {
		peers = append(peers, m[1])
	}
	return peers, err
}

// strain is what gateways without a fault report if the machine is too slow: datagrams that the kernel has
// dropped because they did not read them fast enough, link probes without an answer in time, and links that
// were found down. It is counted from before it is observed which gateways flows pass, as a link that goes
// down later moves flows, too. Links to gateways with the fault do not count.
type strain struct{ overflow, probes, downs uint64 }

func (s strain) since(before strain) strain {
	return strain{s.overflow - before.overflow, s.probes - before.probes, s.downs - before.downs}
}

func (f *failover) strain(fault fault) (s strain) {
	for _, g := range f.gateways {
		if slices.Contains(fault.of, g) {
			continue
		}
		toFaulty := func(text, label string) bool {
			return slices.ContainsFunc(fault.of, func(faulty *gatewayPod) bool {
				return faulty.c != g.c && strings.Contains(text, label+`"`+faulty.name+`"`)
			})
		}
		var text string
		within(f.t, 2*time.Minute, g.label()+" returns its metrics", func() (err error) {
			text, _, err = g.get("/metrics")
			return err
		})
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			n, _ := strconv.ParseFloat(value, 64) // comments have no number
			switch {
			case strings.HasPrefix(name, "strait_receive_queue_overflow_total{"):
				s.overflow += uint64(n)
			case strings.HasPrefix(name, "strait_link_probes_lost_total{") && !toFaulty(name, "peer="):
				s.probes += uint64(n)
			}
		}
		for line := range strings.Lines(g.Log()) {
			if strings.Contains(line, "link is down") && !toFaulty(line, `"link":`) {
				s.downs++
			}
		}
	}
	return s
}

// apiServersLeave ends both API servers.
func (f *failover) apiServersLeave() {
	f.a.StopServer(f.t)
	f.b.StopServer(f.t)
	f.away = true
}

// apiServersReturn starts both API servers again, if they are away. Objects are deleted after
// the test.
func (f *failover) apiServersReturn() {
	if f.away {
		f.a.StartServer(f.t)
		f.b.StartServer(f.t)
		f.away = false
	}
}

// leastOutage is less than any fault takes to be found, in milliseconds.
const leastOutage = 100

// measure inflicts a fault, waits until all flows are delivered again, repairs the fault, and
// returns what it cost.
func (f *failover) measure(kind *faultKind) faultSample {
	f.t.Helper()
	fault := kind.choose(f)
	before, dropped := f.strain(fault), backlogDrops(f.t) // whatever moves flows from here on is counted
	passing := f.settledPassing()
	timeouts := milliseconds(f.flows.Timeouts())
	f.flows.Begin()
	repair := fault.inflict()
	down := f.recover()
	outcomes := f.flows.Outcomes()
	strained := f.strain(fault).since(before)
	if n := backlogDrops(f.t) - dropped; n > 0 {
		f.t.Logf("%s (%s): the kernel dropped %d packets of any flow, because a processor did not run: net.core.netdev_max_backlog is how many wait for it", kind.name, fault.victim, n)
	}
	s := faultSample{
		Topology: fmt.Sprintf("%dx%d", f.replicas, f.replicas), Fault: kind.name, API: apiUp, Victim: fault.victim,
		Outages: map[string][]float64{}, Overflow: strained.overflow, ProbesLost: strained.probes, LinksDown: strained.downs,
	}
	if len(timeouts) > 0 {
		s.RTO, s.RTO99 = quantile(timeouts, 0.5), quantile(timeouts, 0.99)
	}
	if f.away {
		s.API = apiAway
	}
	for _, flow := range f.flows.Flows {
		o := outcomes[flow.ID]
		used := fault.used(flow, passing) || flow.TCP() && fault.used(f.flows.Flows[flow.ID^1], passing)
		s.add(flow.Class, used, slices.Contains(down, flow), o)
	}
	if udp := s.udp(); len(udp) > 0 && slices.Max(udp) < leastOutage {
		f.t.Errorf("%s (%s): %d UDP flows used it, and none had an outage of %d ms: it did not fail", kind.name, fault.victim, len(udp), leastOutage)
	}
	repair()
	f.settle()
	return s
}
