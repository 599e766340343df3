//go:build nightly

package clusters

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
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
	excess = 1.3
	// flooded is how long each rate is measured.
	flooded = 4 * time.Second
)

// measureThroughput measures what 1 to 4 gateways of each cluster carry with little CPU time. The API servers
// are away: the processors are for the gateways and the traffic. The number of nodes is always the same.
// With FAILOVER_RATE, in datagrams per second, it measures what that rate costs without a limit.
func (r *failoverRun) measureThroughput(t *testing.T) {
	cpus := float64(setting(t, "FAILOVER_MILLICPUS", 100)) / 1000
	offered := float64(setting(t, "FAILOVER_RATE", 0))
	const most = 4
	one := map[int]float64{} // datagrams per second of one gateway, by size
	for gateways := 1; gateways <= most; gateways++ {
		t.Run(fmt.Sprintf("gateways=%d", gateways), func(t *testing.T) {
			f := newFailover(t, 1+most, gateways, 8, time.Second)
			defer f.apiServersReturn()
			f.apiServersLeave()
			if offered == 0 {
				for _, g := range f.gateways {
					program.LimitCPU(t, g.PID(), cpus)
				}
			}
			for _, size := range []int{64, 1372} {
				if offered == 0 && one[size] == 0 {
					one[size], _ = f.carry(size, 400_000*cpus)
				}
				for range 3 {
					s := throughputSample{Gateways: gateways, Size: size, CPUs: cpus, Flows: floodFlows}
					rate, used := f.carry(size, max(offered, excess*float64(gateways)*one[size]))
					s.Rate, s.Busy, s.CPUPerGB = rate, used/(cpus*float64(len(f.gateways))), used/(rate*float64(size))*1e9
					r.Throughput = append(r.Throughput, s)
					t.Logf("%d gateways, %d bytes: %.0f datagrams/s, %.0f %% busy, %.2f CPU-s/GB", gateways, size, s.Rate, 100*s.Busy, s.CPUPerGB)
				}
			}
		})
	}
}

// carry offers datagrams from cluster a to cluster b at a rate, and returns how many arrive per
// second, and how much CPU time all gateways use for them, in CPU-seconds per second.
func (f *failover) carry(size int, rate float64) (arrived, cpu float64) {
	f.t.Helper()
	stop := f.flood(size, rate)
	defer func() {
		stop()
		f.drain()
	}()
	time.Sleep(flooded / 4)
	begun, packets, used := time.Now(), f.received(), f.cpuTime()
	time.Sleep(flooded)
	took := time.Since(begun).Seconds()
	return (f.received() - packets) / took, (f.cpuTime() - used).Seconds() / took
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
func (f *failover) flood(size int, rate float64) (stop func()) {
	var sink *net.UDPConn // nothing reads it
	from, end := f.ends[0], f.ends[1]
	must(f.t, end.Namespace.In(func() (err error) {
		sink, err = net.ListenUDP("udp4", &net.UDPAddr{Port: floodPort})
		return err
	}))
	var sockets []*underlay.Socket
	var to []underlay.Destination
	for i := range floodFlows { // each with another pair of addresses
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
				batch.Add(sockets[i%floodFlows], &to[i%floodFlows], nil, payload)
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
