//go:build nightly

package clusters

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"strait.dev/strait/test/netns"
	"strait.dev/strait/test/program"
	"strait.dev/strait/underlay"
)

const (
	floodFlows = 1024 // so many that gateways get nearly equal parts of them
	floodPort  = 7002 // of the first sink
	floodBurst = 8    // datagrams of a flow that are sent at once
	// gatewayFlows is how many of the flows through a gateway are used at most.
	gatewayFlows = floodFlows / maxGateways
	// floodTick is the time between the sender's wake-ups: at each it sends what is due until the next one. Each gateway then gets
	// batches of about the same size, however many there are.
	floodTick = 2 * time.Millisecond
)

// flood is the ends of many flows of a pair of clusters.
type flood struct {
	f       *failover
	sockets []*underlay.Socket
	to      []underlay.Destination // of each socket
	sinks   []*net.UDPConn         // nothing reads them
	through [][]int                // the flows through each gateway of cluster a, by index
	sent    atomic.Int64
}

// newFlood opens the ends of floodFlows flows, each with another pair of addresses. Consecutive flows have the same sink, one of
// maxGateways. They close when the test ends.
func newFlood(f *failover) *flood {
	f.t.Helper()
	fl := &flood{f: f}
	from, end := f.ends[0], f.ends[1]
	must(f.t, end.Namespace.In(func() error {
		for i := range maxGateways {
			sink, err := net.ListenUDP("udp4", &net.UDPAddr{Port: floodPort + i})
			if err != nil {
				return err
			}
			fl.sinks = append(fl.sinks, sink)
		}
		return nil
	}))
	must(f.t, from.Namespace.In(func() error {
		for i := range floodFlows {
			s, err := underlay.Listen(netip.AddrPortFrom(from.Local[0][i%flowAddresses], 0), underlay.Options{})
			if err != nil {
				return err
			}
			fl.sockets = append(fl.sockets, s)
			fl.to = append(fl.to, underlay.NewDestination(netip.AddrPortFrom(from.Remote[0][i/flowAddresses], uint16(floodPort+i*maxGateways/floodFlows))))
		}
		return nil
	}))
	f.t.Cleanup(func() {
		for _, s := range fl.sockets {
			_ = s.Close()
		}
		for _, sink := range fl.sinks {
			_ = sink.Close()
		}
	})
	fl.sort()
	return fl
}

// sort finds out which gateway of cluster a each flow passes, which the node chooses by a hash.
func (fl *flood) sort() {
	fl.f.t.Helper()
	const marks, size = 32, 1000 // datagrams and their bytes: far more than a gateway receives otherwise
	gateways, batch, payload := fl.gateways(), underlay.NewBatch(marks), make([]byte, size)
	bytes := func() (all []float64) {
		for _, g := range gateways {
			received, _ := fl.f.received(g.Namespace)
			all = append(all, received)
		}
		return all
	}
	fl.through = make([][]int, len(gateways))
	for i, s := range fl.sockets {
		within(fl.f.t, time.Minute, fmt.Sprintf("a gateway receives flow %d", i), func() error {
			before := bytes()
			for range marks {
				batch.Add(s, &fl.to[i], nil, payload)
			}
			_, _ = batch.Flush() // what is lost is sent again
			time.Sleep(time.Millisecond)
			for g, now := range bytes() {
				if now-before[g] >= marks*size {
					fl.through[g] = append(fl.through[g], i)
					return nil
				}
			}
			return errors.New("none has received it")
		})
	}
	for g, flows := range fl.through {
		if len(flows) == 0 {
			fl.f.t.Fatalf("no flow passes %s", gateways[g].label())
		}
	}
	fl.drain()
}

// gateways returns the gateways of cluster a.
func (fl *flood) gateways() (all []*gatewayPod) {
	for _, g := range fl.f.gateways {
		if g.c == fl.f.a {
			all = append(all, g)
		}
	}
	return all
}

// send sends datagrams until it is stopped, at a rate in datagrams per second through each gateway. Each gateway gets them from a
// goroutine of its own, so that each of several gets what one gets.
func (fl *flood) send(size int, rate float64) (stop func()) {
	done := make(chan struct{})
	var senders sync.WaitGroup
	for g, flows := range fl.through {
		flows = flows[:min(len(flows), gatewayFlows)]
		first := len(flows) * g / len(fl.through) // so that they send to different sinks
		senders.Go(func() { fl.sendSome(size, slices.Concat(flows[first:], flows[:first]), rate, done) })
	}
	return func() {
		close(done)
		senders.Wait()
	}
}

// sendSome sends datagrams of some flows until done is closed.
func (fl *flood) sendSome(size int, flows []int, rate float64, done <-chan struct{}) {
	payload, batch := make([]byte, size), underlay.NewBatch(floodBurst)
	begun := time.Now()
	next := begun
	for i := 0; ; i++ {
		select {
		case <-done:
			return
		default:
		}
		flow := flows[i%len(flows)]
		for range floodBurst {
			batch.Add(fl.sockets[flow], &fl.to[flow], nil, payload)
		}
		accepted, _ := batch.Flush()
		fl.sent.Add(int64(accepted))
		next = next.Add(time.Duration(floodBurst / rate * float64(time.Second)))
		if tick := begun.Add(next.Sub(begun).Truncate(floodTick)); time.Until(tick) > 0 {
			time.Sleep(time.Until(tick))
		} else if time.Since(tick) > 20*time.Millisecond {
			next = time.Now() // lost time is not made up
		}
	}
}

// carry offers datagrams from cluster a to cluster b of each pair at the same time, at a rate in datagrams per second for each
// gateway of a, and returns what each pair carried. They are counted for the time flooded, after a third of it.
func carry(t *testing.T, size int, rate float64, floods ...*flood) []carried {
	t.Helper()
	for _, fl := range floods {
		defer fl.drain() // after all have stopped
	}
	for _, fl := range floods {
		defer fl.send(size, rate)()
	}
	time.Sleep(flooded / 3)
	machine, begun := program.MachineTime(t), time.Now()
	all, before := make([]carried, len(floods)), make([]reading, len(floods))
	for i, fl := range floods {
		before[i] = fl.read()
	}
	time.Sleep(flooded)
	for i, fl := range floods {
		now := fl.read()
		seconds := now.at.Sub(before[i].at).Seconds()
		all[i] = carried{
			Rate:    (now.received - before[i].received) / seconds,
			Offered: (now.sent - before[i].sent) / seconds,
			CPU:     (now.cpu - before[i].cpu).Seconds() / seconds,
		}
	}
	used := program.MachineTime(t) - machine
	for i := range all {
		all[i].Idle = 1 - used.Seconds()/(time.Since(begun).Seconds()*float64(runtime.NumCPU()))
	}
	return all
}

// drain waits until the gateways have forwarded what they queued.
func (fl *flood) drain() {
	fl.f.t.Helper()
	const look, few = 200 * time.Millisecond, 100 // datagrams; the flows send some too
	within(fl.f.t, time.Minute, "the queues of the gateways are empty", func() error {
		before := fl.read().received
		time.Sleep(look)
		if n := fl.read().received - before; n > few {
			return fmt.Errorf("%.0f datagrams arrived in %v", n, look)
		}
		return nil
	})
}

// reading is what a flood's counters were at a time.
type reading struct {
	at             time.Time
	sent, received float64       // datagrams
	cpu            time.Duration // of all gateways
}

// read returns the counters.
func (fl *flood) read() reading {
	fl.f.t.Helper()
	_, packets := fl.f.received(fl.f.ends[1].Namespace)
	return reading{at: time.Now(), sent: float64(fl.sent.Load()), received: packets, cpu: fl.f.cpuTime()}
}

// received returns what a pod has received.
func (f *failover) received(pod *netns.Namespace) (bytes, packets float64) {
	f.t.Helper()
	var text []byte
	must(f.t, pod.In(func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/dev")
		return err
	}))
	_, after, _ := strings.Cut(string(text), "eth0:")
	if n, err := fmt.Sscan(after, &bytes, &packets); n != 2 {
		f.t.Fatalf("no counters of eth0: %v in\n%s", err, text)
	}
	return bytes, packets
}

// cpuTime returns the CPU time that all gateways have used.
func (f *failover) cpuTime() (used time.Duration) {
	for _, g := range f.gateways {
		used += program.CPUTime(f.t, g.PID())
	}
	return used
}
