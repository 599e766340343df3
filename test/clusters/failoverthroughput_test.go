//go:build nightly

package clusters

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"strait.dev/strait/test/program"
	"strait.dev/strait/underlay"
)

const (
	floodFlows = 1024 // so many that gateways get nearly equal parts of them
	floodPort  = 7002
	floodBurst = 8 // datagrams of a flow that are sent at once
	// floodTick is the time between the sender's wake-ups: at each it sends what is due until the next one. Each gateway then gets
	// batches of about the same size, however many there are.
	floodTick = 2 * time.Millisecond
	// excess is how much more is offered than one gateway carries: it is busy even if the machine has become much faster.
	excess = 1.6
	// excessOfMany is the same of several, compared with what one has just carried: also the one with the fewest flows gets as
	// many datagrams as it can carry, and the sender leaves the processors to them.
	excessOfMany = 1.4
	// flooded is how long each rate is measured, after a third of that time.
	flooded = 2400 * time.Millisecond
	// floodRounds is how often each number of gateways is measured: in two rounds, the same gateways differ by a tenth.
	floodRounds = 9
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

// throughput is how gateways are measured.
type throughput struct {
	cpus float64         // limit of each gateway
	load float64         // datagrams per second of each gateway without a limit
	one  map[int]float64 // about how many datagrams per second one gateway carries with the limit, by size

	settled   int // changes of node helpers when flows were last spread evenly
	disturbed int // rounds that were repeated
}

// measureThroughput measures 1 to 4 gateways of each of two clusters: the CPU time that they use without a limit, each
// with the same load, and what they carry with little CPU time. The API servers are away: the processors are for the
// gateways and the traffic.
//
// How much a gateway does in a second of CPU time depends on what else the machine runs, because programs share caches and
// memory, and on when: the machine may be a third slower some minutes later. So each number of gateways is compared with
// as many pairs of clusters that have one gateway each, and with one of these pairs. All of them run all the time, and
// are flooded in turn, seconds apart.
func (r *failoverRun) measureThroughput(t *testing.T) {
	m := &throughput{
		cpus: float64(setting(t, "FAILOVER_MILLICPUS", 100)) / 1000,
		load: float64(setting(t, "FAILOVER_LOAD", 8000)),
		one:  map[int]float64{},
	}
	withPairs(t, nil, maxGateways, func(t *testing.T, apart []*failover) {
		limit(t, apart, m.cpus)
		for _, size := range floodSizes {
			m.one[size] = carry(t, apart[:1], size, 400_000*m.cpus).rate
		}
		for gateways := 1; gateways <= maxGateways; gateways++ {
			t.Run(fmt.Sprintf("gateways=%d", gateways), func(t *testing.T) {
				f := newFailover(t, 1+maxGateways, gateways, 8, time.Second)
				defer f.apiServersReturn()
				f.apiServersLeave()
				time.Sleep(retryRest)
				m.settled = helperChangesOf(append([]*failover{f}, apart[:gateways]...))
				for _, size := range floodSizes {
					r.Throughput = append(r.Throughput, m.measure(t, f, apart[:gateways], size)...)
				}
			})
		}
	})
}

// withPairs starts so many pairs of clusters with one gateway each, which have nothing in common.
func withPairs(t *testing.T, pairs []*failover, count int, measure func(t *testing.T, pairs []*failover)) {
	if len(pairs) == count {
		measure(t, pairs)
		return
	}
	t.Run(fmt.Sprintf("pair=%d", 1+len(pairs)), func(t *testing.T) {
		f := newFailover(t, 2, 1, 8, time.Second)
		defer f.apiServersReturn()
		f.apiServersLeave()
		withPairs(t, append(pairs, f), count, measure)
	})
}

// measure compares the gateways of two clusters with as many that are apart, and with one of these.
func (m *throughput) measure(t *testing.T, f *failover, apart []*failover, size int) []throughputSample {
	together, n, one := []*failover{f}, float64(len(apart)), apart[:1]
	samples := make([]throughputSample, floodRounds)
	all := append(together, apart...)
	limit(t, all, 0)
	for i := range samples {
		s := &samples[i]
		c, a := inTurn(i, func() carried { return carry(t, together, size, n*m.load) }, func() carried { return carry(t, apart, size, n*m.load) })
		o := carry(t, one, size, m.load)
		*s = throughputSample{
			Gateways: len(apart), Size: size, Flows: floodFlows, CPUs: m.cpus, Load: m.load, Delivered: c.rate / c.sent,
			CPUPerGB: c.cpuPerGB(size), ApartCPUPerGB: a.cpuPerGB(size), OneCPUPerGB: o.cpuPerGB(size),
		}
		t.Logf("%d gateways, %d bytes: %.1f %% of %.0f datagrams/s with %.2f CPU-s/GB; apart %.2f, one %.2f",
			s.Gateways, size, 100*s.Delivered, c.sent, s.CPUPerGB, s.ApartCPUPerGB, s.OneCPUPerGB)
	}
	limit(t, all, m.cpus)
	for i := 0; i < len(samples); i++ {
		s := &samples[i]
		o := carry(t, one, size, excess*m.one[size])
		rate := n * excessOfMany * max(o.rate, m.one[size]) // one of these may have been low
		m.one[size] = o.rate
		c, a := inTurn(i, func() carried { return carry(t, together, size, rate) }, func() carried { return carry(t, apart, size, rate) })
		s.Rate, s.Apart, s.One = c.rate, a.rate, o.rate
		s.Busy, s.Idle = c.cpu/(m.cpus*float64(len(f.gateways))), c.idle
		t.Logf("%d gateways, %d bytes: limited %.0f datagrams/s, %.0f %% busy, machine %.0f %% idle; %.2f x apart (machine %.0f %% idle), %.2f x one",
			s.Gateways, size, s.Rate, 100*s.Busy, 100*s.Idle, s.Rate/s.Apart, 100*a.idle, s.Rate/s.One)
		if s.Busy < 0.9 {
			f.tellState()
		}
		if changes := helperChangesOf(all) - m.settled; changes > 0 {
			if m.disturbed++; m.disturbed > maxDisturbed {
				t.Errorf("node helpers moved flows in %d rounds: this number of gateways is not measured further", m.disturbed)
				return samples[:i]
			}
			t.Logf("node helpers changed the kernel %d times: the round is repeated after a rest", changes)
			time.Sleep(groupRest)
			f.settle()
			m.settled = helperChangesOf(all)
			i--
		}
	}
	return samples
}

// inTurn measures two things, in every second round the second one first: what comes first is not always what comes second.
func inTurn(round int, first, second func() carried) (a, b carried) {
	if round%2 == 0 {
		a = first()
		return a, second()
	}
	b = second()
	return first(), b
}

// helperChangesOf returns how often the node helpers of these pairs have changed their kernels: what gateways carry then is
// that of fewer gateways.
func helperChangesOf(pairs []*failover) (count int) {
	for _, f := range pairs {
		count += f.helperChanges()
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

// limit holds each gateway to a part of a CPU; 0 = no limit.
func limit(t *testing.T, pairs []*failover, cpus float64) {
	t.Helper()
	for _, f := range pairs {
		for _, g := range f.gateways {
			program.LimitCPU(t, g.PID(), cpus)
		}
	}
}

// carried is what gateways carried of a flood.
type carried struct {
	rate float64 // datagrams per second
	sent float64 // the same of the sender
	cpu  float64 // CPU time of all gateways, CPU-seconds per second
	idle float64 // part of the machine's CPU time that nothing used
}

// cpuPerGB returns the CPU-seconds per 10⁹ bytes of payload of datagrams of a size.
func (c carried) cpuPerGB(size int) float64 { return c.cpu / (c.rate * float64(size)) * 1e9 }

// carry offers datagrams from cluster a to cluster b of each pair, at a rate in datagrams per second of all pairs.
func carry(t *testing.T, pairs []*failover, size int, rate float64) carried {
	t.Helper()
	flows := floodFlows / len(pairs)
	var sent atomic.Int64
	for _, f := range pairs {
		stop := f.flood(size, flows, rate/float64(len(pairs)), &sent)
		defer func() {
			stop()
			f.drain()
		}()
	}
	count := func() (packets float64, used time.Duration) {
		for _, f := range pairs {
			packets, used = packets+f.received(), used+f.cpuTime()
		}
		return packets, used
	}
	time.Sleep(flooded / 3)
	begun, machine := time.Now(), program.MachineTime(t)
	packets, used := count()
	offered := sent.Load()
	time.Sleep(flooded)
	packetsNow, usedNow := count()
	offered = sent.Load() - offered
	took := time.Since(begun).Seconds()
	return carried{
		rate: (packetsNow - packets) / took,
		sent: float64(offered) / took,
		cpu:  (usedNow - used).Seconds() / took,
		idle: 1 - (program.MachineTime(t)-machine).Seconds()/(took*float64(runtime.NumCPU())),
	}
}

// drain waits until the gateways have forwarded what they queued in a flood.
func (f *failover) drain() {
	f.t.Helper()
	const look, few = 200 * time.Millisecond, 100 // datagrams; the flows send some too
	within(f.t, time.Minute, "the queues of the gateways are empty", func() error {
		before := f.received()
		time.Sleep(look)
		if n := f.received() - before; n > few {
			return fmt.Errorf("%.0f datagrams arrived in %v", n, look)
		}
		return nil
	})
}

// flood sends datagrams of many flows until it is stopped, and adds their number to sent.
func (f *failover) flood(size, flows int, rate float64, sent *atomic.Int64) (stop func()) {
	var sink *net.UDPConn // nothing reads it
	from, end := f.ends[0], f.ends[1]
	must(f.t, end.Namespace.In(func() (err error) {
		sink, err = net.ListenUDP("udp4", &net.UDPAddr{Port: floodPort})
		return err
	}))
	var sockets []*underlay.Socket
	var to []underlay.Destination
	for i := range flows { // each with another pair of addresses
		to = append(to, underlay.NewDestination(netip.AddrPortFrom(from.Remote[0][i/flowAddresses], floodPort)))
		must(f.t, from.Namespace.In(func() error {
			s, err := underlay.Listen(netip.AddrPortFrom(from.Local[0][i%flowAddresses], 0), underlay.Options{})
			sockets = append(sockets, s)
			return err
		}))
	}
	done := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() {
		payload, batch := make([]byte, size), underlay.NewBatch(floodBurst)
		begun := time.Now()
		next := begun
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			for range floodBurst {
				batch.Add(sockets[i%flows], &to[i%flows], nil, payload)
			}
			accepted, _ := batch.Flush()
			sent.Add(int64(accepted))
			next = next.Add(time.Duration(floodBurst / rate * float64(time.Second)))
			if tick := begun.Add(next.Sub(begun).Truncate(floodTick)); time.Until(tick) > 0 {
				time.Sleep(time.Until(tick))
			} else if time.Since(tick) > 20*time.Millisecond {
				next = time.Now() // lost time is not made up
			}
		}
	})
	return func() {
		close(done)
		sender.Wait()
		for _, s := range sockets {
			_ = s.Close()
		}
		_ = sink.Close()
	}
}

// received returns how many packets the pod in cluster b has received.
func (f *failover) received() float64 {
	var links []struct {
		Stats struct{ RX struct{ Packets float64 } } `json:"stats64"`
	}
	must(f.t, json.Unmarshal([]byte(f.b.pods[f.replicas].Run(f.t, "ip", "-s", "-j", "link", "show", "eth0")), &links))
	return links[0].Stats.RX.Packets
}

// cpuTime returns the CPU time that all gateways have used.
func (f *failover) cpuTime() (used time.Duration) {
	for _, g := range f.gateways {
		used += program.CPUTime(f.t, g.PID())
	}
	return used
}

// measureSpread counts the flows through each of four gateways of each cluster, and those that
// move although another gateway is killed.
func (r *failoverRun) measureSpread(t *testing.T) {
	const gateways, count = 4, 2000 // 1,000 in each direction
	f := newFailover(t, gateways+1, gateways, count, 500*time.Millisecond)
	passing := f.passing()
	for _, from := range []*cluster{f.a, f.b} {
		for _, c := range []*cluster{f.a, f.b} {
			s := spreadSample{From: from.name, Through: map[string]int{}}
			for _, flow := range f.flows.Flows {
				if flow.From == from.name {
					s.Flows++
				}
			}
			for _, g := range c.gateways {
				s.Through[g.label()] = 0
				for _, flow := range f.flows.Flows {
					if flow.From == from.name && passing[g.label()][flow.ID] {
						s.Through[g.label()]++
					}
				}
			}
			r.Spread = append(r.Spread, s)
			t.Logf("%d flows from cluster %s through %v", s.Flows, s.From, s.Through)
		}
	}
	killed := f.a.gateways["b-0"]
	killed.Kill()
	time.Sleep(5 * time.Second) // nodes and gateways notice it
	f.delivered()
	after := f.passing()
	for _, tcp := range []bool{false, true} {
		for _, from := range []*cluster{f.a, f.b} {
			s := regroupSample{ChosenBy: "nodes", Protocol: "UDP", Gateways: gateways}
			if from == f.b {
				s.ChosenBy = "gateways"
			}
			if tcp {
				s.Protocol = "TCP"
			}
			for _, g := range f.a.gateways {
				for _, flow := range f.flows.Flows {
					if g == killed || flow.From != from.name || flow.TCP() != tcp || !passing[g.label()][flow.ID] {
						continue
					}
					s.Flows++
					if !after[g.label()][flow.ID] {
						s.Moved++
					}
				}
			}
			r.Regroup = append(r.Regroup, s)
			t.Logf("%d of %d %s flows of other gateways, chosen by %s, moved after a kill", s.Moved, s.Flows, s.Protocol, s.ChosenBy)
		}
	}
	killed.startContainer(t)
}
