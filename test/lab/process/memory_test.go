//go:build lab || nightly

package process

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"strait.dev/strait/test/lab"
)

// The most that a gateway with one node may have resident, MiB. Half of it is the program's own file.
const (
	memoryInTraffic = 48
	memoryInFlood   = 64
)

// memoryTime returns how long the mixed traffic runs: LAB_MEMORY_SECONDS.
func memoryTime(t *testing.T) time.Duration {
	t.Helper()
	given := os.Getenv("LAB_MEMORY_SECONDS")
	if given == "" {
		given = "20"
	}
	seconds, err := strconv.Atoi(given)
	if err != nil || seconds < 1 {
		t.Fatalf("LAB_MEMORY_SECONDS is %q, not a number of seconds", given)
	}
	return time.Duration(seconds) * time.Second
}

// resident returns a field of /proc/PID/status of the gateway, VmRSS or VmHWM, in MiB.
func resident(t *testing.T, g *lab.Gateway, field string) float64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.Cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	value, _ := lab.StatusField(string(status), field)
	kib, err := strconv.ParseFloat(strings.TrimSuffix(value, " kB"), 64)
	if err != nil {
		t.Fatalf("%s: %v", field, err)
	}
	return kib / 1024
}

func TestF19_MemoryIsBoundedInMixedTrafficAndInAFlood(t *testing.T) {
	top := lab.Build(t, lab.Options{})
	a, b := top.A.Gateway, top.B.Gateway
	gateways := []*lab.Gateway{a, b}
	for _, w := range top.Directions() {
		if !w.Src.Is6() {
			discard(t, w.To, netip.AddrPortFrom(w.Real, 9000))
		}
	}
	runFor := memoryTime(t)
	var done sync.WaitGroup
	stop := make(chan struct{})
	end := sync.OnceFunc(func() { close(stop); done.Wait() })
	t.Cleanup(end)

	w := top.Directions()[0]
	lab.StartPings(t, w.From, w.Seen)
	echoStreams(t, w.To, netip.AddrPortFrom(w.Real, 9001))
	sendUDP(t, &done, stop, w.From, netip.AddrPortFrom(w.Seen, 9000), 80e6)
	done.Go(func() {
		for tick := time.NewTicker(time.Second / 50); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
			}
			done.Go(func() { exchange(w.From, netip.AddrPortFrom(w.Seen, 9001)) })
		}
	})

	least, most := []float64{1e9, 1e9}, []float64{0, 0}
	warm := time.Now().Add(runFor / 4)
	for finish := time.Now().Add(runFor); time.Now().Before(finish); time.Sleep(lab.Pause) {
		for i, g := range gateways {
			if now := resident(t, g, "VmRSS"); time.Now().After(warm) {
				least[i], most[i] = min(least[i], now), max(most[i], now)
			}
		}
	}
	for i, g := range gateways {
		t.Logf("gateway %s, mixed traffic: %.1f to %.1f MiB resident, at most %.1f; heap %.1f MiB, %v collections", g.Site.Name,
			least[i], most[i], resident(t, g, "VmHWM"), g.Metric(t, "go_memstats_heap_inuse_bytes")/(1<<20), g.Metric(t, "go_gc_duration_seconds_count"))
		if most[i] > memoryInTraffic {
			t.Errorf("gateway %s had %.1f MiB resident, want at most %d", g.Site.Name, most[i], memoryInTraffic)
		}
	}
	end()

	stop = make(chan struct{})
	endFlood := sync.OnceFunc(func() { close(stop); done.Wait() })
	t.Cleanup(endFlood)
	for _, w := range top.Directions() {
		if !w.Src.Is6() {
			sendUDP(t, &done, stop, w.From, netip.AddrPortFrom(w.Seen, 9000), 20e9)
		}
	}
	time.Sleep(runFor / 2)
	endFlood()
	for _, g := range gateways {
		most := resident(t, g, "VmHWM")
		t.Logf("gateway %s, after a flood in both directions: at most %.1f MiB; heap %.1f MiB", g.Site.Name, most, g.Metric(t, "go_memstats_heap_inuse_bytes")/(1<<20))
		if most > memoryInFlood {
			t.Errorf("gateway %s had %.1f MiB resident in a flood, want at most %d", g.Site.Name, most, memoryInFlood)
		}
	}
}

// discard receives datagrams until the test ends.
func discard(t *testing.T, n *lab.Namespace, at netip.AddrPort) {
	t.Helper()
	c := n.ListenUDP(t, at)
	go func() {
		b := make([]byte, 2048)
		for {
			if _, err := c.Read(b); err != nil {
				return
			}
		}
	}()
}

// echoStreams echoes what connections send until the test ends.
func echoStreams(t *testing.T, n *lab.Namespace, at netip.AddrPort) {
	t.Helper()
	l := n.ListenTCP(t, at)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
}

// exchange sends and receives a kilobyte over a connection of its own. What fails in a flood is not its subject.
func exchange(n *lab.Namespace, to netip.AddrPort) {
	var c net.Conn
	if err := n.In(func() (err error) { c, err = net.DialTimeout("tcp", to.String(), time.Second); return err }); err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Second))
	b := make([]byte, 1024)
	if _, err := c.Write(b); err == nil {
		_, _ = io.ReadFull(c, b)
	}
}

// sendUDP sends datagrams of 1372 bytes at a rate in bits per second until stop is closed.
func sendUDP(t *testing.T, done *sync.WaitGroup, stop <-chan struct{}, from *lab.Namespace, to netip.AddrPort, rate float64) {
	t.Helper()
	c := from.Dial(t, "udp", to)
	done.Go(func() {
		b := make([]byte, 1372)
		sent, start := 0.0, time.Now()
		for {
			select {
			case <-stop:
				return
			default:
			}
			if due := time.Since(start).Seconds() * rate / 8 / float64(len(b)); sent >= due {
				time.Sleep(time.Millisecond)
				continue
			}
			_, _ = c.Write(b)
			sent++
		}
	})
}
