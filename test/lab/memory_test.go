//go:build lab || nightly

package lab

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
func (g *gateway) resident(t *testing.T, field string) float64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	value, _ := statusField(string(status), field)
	kib, err := strconv.ParseFloat(strings.TrimSuffix(value, " kB"), 64)
	if err != nil {
		t.Fatalf("%s: %v", field, err)
	}
	return kib / 1024
}

func TestF19_MemoryIsBoundedInMixedTrafficAndInAFlood(t *testing.T) {
	top := build(t, options{})
	a, b := top.a.gateway, top.b.gateway
	gateways := []*gateway{a, b}
	for _, w := range top.directions() {
		if !w.src.Is6() {
			discard(t, w.to, netip.AddrPortFrom(w.real, 9000))
		}
	}
	runFor := memoryTime(t)
	var done sync.WaitGroup
	stop := make(chan struct{})
	end := sync.OnceFunc(func() { close(stop); done.Wait() })
	t.Cleanup(end)

	w := top.directions()[0]
	startPings(t, w.from, w.seen)
	echoStreams(t, w.to, netip.AddrPortFrom(w.real, 9001))
	sendUDP(t, &done, stop, w.from, netip.AddrPortFrom(w.seen, 9000), 80e6)
	done.Go(func() {
		for tick := time.NewTicker(time.Second / 50); ; {
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
			}
			done.Go(func() { exchange(w.from, netip.AddrPortFrom(w.seen, 9001)) })
		}
	})

	least, most := []float64{1e9, 1e9}, []float64{0, 0}
	warm := time.Now().Add(runFor / 4)
	for finish := time.Now().Add(runFor); time.Now().Before(finish); time.Sleep(pause) {
		for i, g := range gateways {
			if now := g.resident(t, "VmRSS"); time.Now().After(warm) {
				least[i], most[i] = min(least[i], now), max(most[i], now)
			}
		}
	}
	for i, g := range gateways {
		t.Logf("gateway %s, mixed traffic: %.1f to %.1f MiB resident, at most %.1f; heap %.1f MiB, %v collections", g.site.name,
			least[i], most[i], g.resident(t, "VmHWM"), g.metric(t, "go_memstats_heap_inuse_bytes")/(1<<20), g.metric(t, "go_gc_duration_seconds_count"))
		if most[i] > memoryInTraffic {
			t.Errorf("gateway %s had %.1f MiB resident, want at most %d", g.site.name, most[i], memoryInTraffic)
		}
	}
	end()

	stop = make(chan struct{})
	endFlood := sync.OnceFunc(func() { close(stop); done.Wait() })
	t.Cleanup(endFlood)
	for _, w := range top.directions() {
		if !w.src.Is6() {
			sendUDP(t, &done, stop, w.from, netip.AddrPortFrom(w.seen, 9000), 20e9)
		}
	}
	time.Sleep(runFor / 2)
	endFlood()
	for _, g := range gateways {
		most := g.resident(t, "VmHWM")
		t.Logf("gateway %s, after a flood in both directions: at most %.1f MiB; heap %.1f MiB", g.site.name, most, g.metric(t, "go_memstats_heap_inuse_bytes")/(1<<20))
		if most > memoryInFlood {
			t.Errorf("gateway %s had %.1f MiB resident in a flood, want at most %d", g.site.name, most, memoryInFlood)
		}
	}
}

// discard receives datagrams until the test ends.
func discard(t *testing.T, n *namespace, at netip.AddrPort) {
	t.Helper()
	c := n.listenUDP(t, at)
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
func echoStreams(t *testing.T, n *namespace, at netip.AddrPort) {
	t.Helper()
	l := n.listenTCP(t, at)
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
func exchange(n *namespace, to netip.AddrPort) {
	var c net.Conn
	if err := n.in(func() (err error) { c, err = net.DialTimeout("tcp", to.String(), time.Second); return err }); err != nil {
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
func sendUDP(t *testing.T, done *sync.WaitGroup, stop <-chan struct{}, from *namespace, to netip.AddrPort, rate float64) {
	t.Helper()
	c := from.dial(t, "udp", to)
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
