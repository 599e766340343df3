//go:build nightly

package clusters

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"strait.dev/strait/test/program"
	"strait.dev/strait/underlay"
)

const (
	floodFlows = 1024 // so many that gateways get nearly equal parts of them
	floodPort  = 7002
	floodBurst = 8 // datagrams of a flow that are sent at once
	// excess is how much more is offered than the gateways carry: also the one with the fewest
	// flows gets as many datagrams as it can carry.
	excess = 1.6
	// flooded is how long each rate is measured.
	flooded = 4 * time.Second
)

// maxGateways is the greatest number of gateways that are measured.
const maxGateways = 4

// throughput is how gateways are measured.
type throughput struct {
	cpus float64         // limit of each gateway
	load float64         // datagrams per second of each gateway without a limit
	one  map[int]float64 // datagrams per second of one gateway with the limit, by size
}

// measureThroughput measures 1 to 4 gateways of each cluster: the CPU time that they use without a limit, each
// with the same load, and what they carry with little CPU time. The API servers are away: the processors are for the
// gateways and the traffic. The number of nodes is always the same. The machine may be slower or faster after some
// minutes, so each number of gateways is measured in every round.
//
// How much a gateway does in a second of CPU time depends on what else the machine runs, because they share caches and
// memory. So each number of gateways is compared with as many pairs of clusters that have one gateway each.
func (r *failoverRun) measureThroughput(t *testing.T) {
	const rounds = 3
	m := &throughput{
		cpus: float64(setting(t, "FAILOVER_MILLICPUS", 100)) / 1000,
		load: float64(setting(t, "FAILOVER_LOAD", 8000)),
		one:  map[int]float64{},
	}
	for round := 1; round <= rounds; round++ {
		t.Run(fmt.Sprintf("round=%d", round), func(t *testing.T) {
			apart := map[[2]int]carried{}
			t.Run("apart", func(t *testing.T) { m.apart(t, nil, apart) })
			for gateways := 1; gateways <= maxGateways; gateways++ {
				t.Run(fmt.Sprintf("gateways=%d", gateways), func(t *testing.T) {
					r.Throughput = append(r.Throughput, m.together(t, gateways, apart)...)
				})
			}
		})
	}
}

// sizes are the bytes of payload of the datagrams.
var sizes = []int{64, 1372}

// apart measures what one to four gateways with little CPU time carry that have nothing in common: each is of another pair
// of clusters. The result has the size and the number.
func (m *throughput) apart(t *testing.T, pairs []*failover, result map[[2]int]carried) {
	if len(pairs) < maxGateways {
		f := newFailover(t, 2, 1, 8, time.Second)
		defer f.apiServersReturn()
		f.apiServersLeave()
		t.Run("and", func(t *testing.T) { m.apart(t, append(pairs, f), result) })
		return
	}
	for _, f := range pairs {
		f.limit(m.cpus)
	}
	for _, size := range sizes {
		if m.one[size] == 0 {
			m.one[size] = carry(t, pairs[:1], size, 400_000*m.cpus).rate
		}
		for n := 1; n <= maxGateways; n++ {
			c := carry(t, pairs[:n], size, excess*float64(n)*m.one[size])
			t.Logf("%d gateways of as many pairs of clusters, %d bytes: limited %.0f datagrams/s, %.0f %% busy, machine %.0f %% idle",
				n, size, c.rate, 100*c.cpu/(m.cpus*float64(2*n)), 100*c.idle)
			result[[2]int{size, n}] = c
		}
	}
}

// together measures some gateways of each of two clusters.
func (m *throughput) together(t *testing.T, gateways int, apart map[[2]int]carried) (samples []throughputSample) {
	f := newFailover(t, 1+maxGateways, gateways, 8, time.Second)
	defer f.apiServersReturn()
	f.apiServersLeave()
	pairs := []*failover{f}
	for _, size := range sizes {
		c := carry(t, pairs, size, m.load*float64(gateways))
		s := throughputSample{
			Gateways: gateways, Size: size, Flows: floodFlows, CPUs: m.cpus,
			Load: m.load, Delivered: c.rate / (m.load * float64(gateways)), CPUPerGB: c.cpu / (c.rate * float64(size)) * 1e9,
		}
		t.Logf("%d gateways, %d bytes: %.1f %% of %.0f datagrams/s with %.2f CPU-s/GB", gateways, size, 100*s.Delivered, m.load*float64(gateways), s.CPUPerGB)
		samples = append(samples, s)
	}
	if len(m.one) == 0 {
		t.Log("not measured with a limit, because there is nothing to compare with: run throughput/round=/apart too")
		return nil
	}
	f.limit(m.cpus)
	for i := range samples {
		s := &samples[i]
		c := carry(t, pairs, s.Size, excess*float64(gateways)*m.one[s.Size])
		s.Rate, s.Apart = c.rate, apart[[2]int{s.Size, gateways}].rate
		s.Busy, s.Idle = c.cpu/(m.cpus*float64(len(f.gateways))), c.idle
		t.Logf("%d gateways, %d bytes: limited %.0f datagrams/s, %.2f x apart, %.0f %% busy, machine %.0f %% idle",
			gateways, s.Size, s.Rate, s.Rate/s.Apart, 100*s.Busy, 100*s.Idle)
	}
	return samples
}

// limit holds each gateway to a part of a CPU.
func (f *failover) limit(cpus float64) {
	f.t.Helper()
	for _, g := range f.gateways {
		program.LimitCPU(f.t, g.PID(), cpus)
	}
}

// carried is what gateways carried of a flood.
type carried struct {
	rate float64 // datagrams per second
	cpu  float64 // CPU time of all gateways, CPU-seconds per second
	idle float64 // part of the machine's CPU time that nothing used
}

// carry offers datagrams from cluster a to cluster b of each pair, at a rate in datagrams per second of all pairs.
func carry(t *testing.T, pairs []*failover, size int, rate float64) carried {
	t.Helper()
	flows := floodFlows / len(pairs)
	for _, f := range pairs {
		stop := f.flood(size, flows, rate/float64(len(pairs)))
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
	time.Sleep(flooded / 4)
	begun, machine := time.Now(), program.MachineTime(t)
	packets, used := count()
	time.Sleep(flooded)
	packetsNow, usedNow := count()
	took := time.Since(begun).Seconds()
	return carried{
		rate: (packetsNow - packets) / took,
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

// flood sends datagrams of many flows until it is stopped.
func (f *failover) flood(size, flows int, rate float64) (stop func()) {
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
		next := time.Now()
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			for range floodBurst {
				batch.Add(sockets[i%flows], &to[i%flows], nil, payload)
			}
			batch.Flush() // what the kernel does not accept is part of the excess
			next = next.Add(time.Duration(floodBurst / rate * float64(time.Second)))
			if ahead := time.Until(next); ahead > time.Millisecond {
				time.Sleep(ahead)
			} else if ahead < -20*time.Millisecond {
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
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", g.PID()))
		must(f.t, err)
		for _, thread := range threads {
			text, err := os.ReadFile(thread)
			must(f.t, err)
			ran, _, _ := strings.Cut(string(text), " ")
			ns, err := strconv.ParseInt(ran, 10, 64)
			must(f.t, err)
			used += time.Duration(ns)
		}
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
