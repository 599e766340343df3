//go:build nightly

package clusters

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
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
	floodPort  = 7002 // of the first sink
	floodBurst = 8    // datagrams of a flow that are sent at once
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
	return fl
}

// send sends datagrams of the first flows until it is stopped. As many goroutines send as the cluster has gateways, each those of a
// part of the flows, so that each of several gateways gets its datagrams like one.
func (fl *flood) send(size, flows int, rate float64) (stop func()) {
	done := make(chan struct{})
	var senders sync.WaitGroup
	count := fl.gateways()
	for i := range count {
		senders.Go(func() { fl.sendSome(size, flows*i/count, flows*(i+1)/count, rate/float64(count), done) })
	}
	return func() {
		close(done)
		senders.Wait()
	}
}

// sendSome sends datagrams of the flows from first up to end until done is closed.
func (fl *flood) sendSome(size, first, end int, rate float64, done <-chan struct{}) {
	payload, batch := make([]byte, size), underlay.NewBatch(floodBurst)
	begun := time.Now()
	next := begun
	for i := first; ; {
		select {
		case <-done:
			return
		default:
		}
		for range floodBurst {
			batch.Add(fl.sockets[i], &fl.to[i], nil, payload)
		}
		accepted, _ := batch.Flush()
		fl.sent.Add(int64(accepted))
		if i++; i == end {
			i = first
		}
		next = next.Add(time.Duration(floodBurst / rate * float64(time.Second)))
		if tick := begun.Add(next.Sub(begun).Truncate(floodTick)); time.Until(tick) > 0 {
			time.Sleep(time.Until(tick))
		} else if time.Since(tick) > 20*time.Millisecond {
			next = time.Now() // lost time is not made up
		}
	}
}

// gateways returns how many gateways each cluster has.
func (fl *flood) gateways() int { return len(fl.f.a.gateways) }

// carry offers datagrams from cluster a to cluster b of each pair at the same time, at a rate in datagrams per second for each
// gateway of a, and returns what each pair carried. They are counted for the time flooded, after a third of it.
func carry(t *testing.T, size int, rate float64, floods ...*flood) []carried {
	t.Helper()
	for _, fl := range floods {
		defer fl.drain() // after all have stopped
	}
	for _, fl := range floods {
		n := fl.gateways()
		defer fl.send(size, floodFlows*n/maxGateways, rate*float64(n))()
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
	return reading{at: time.Now(), sent: float64(fl.sent.Load()), received: fl.f.received(), cpu: fl.f.cpuTime()}
}

// received returns how many packets the pod in cluster b has received.
func (f *failover) received() (packets float64) {
	f.t.Helper()
	var text []byte
	must(f.t, f.ends[1].Namespace.In(func() (err error) {
		text, err = os.ReadFile("/proc/thread-self/net/dev")
		return err
	}))
	_, after, _ := strings.Cut(string(text), "eth0:")
	fields := strings.Fields(after)
	if len(fields) < 2 {
		f.t.Fatalf("no counters of eth0 in:\n%s", text)
	}
	packets, err := strconv.ParseFloat(fields[1], 64) // after the bytes
	must(f.t, err)
	return packets
}

// cpuTime returns the CPU time that all gateways have used.
func (f *failover) cpuTime() (used time.Duration) {
	for _, g := range f.gateways {
		used += program.CPUTime(f.t, g.PID())
	}
	return used
}
