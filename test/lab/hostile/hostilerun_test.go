//go:build lab || nightly

package hostile

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"strait.dev/strait/node"
	"strait.dev/strait/test/lab"
	"strait.dev/strait/test/program"
	"strait.dev/strait/test/wait"
)

// attack is one attack on gateway A during the transfer.
type attack struct {
	threat, name string
	rate         int // packets per second, of each flood
	// floods prepares the packets of attack n. The floods run concurrently.
	floods func(t *testing.T, n uint8) []shots
	// counted are the drop counters that must increase, as "gateway/direction/reason".
	counted []string
	// complete: every packet is counted there, or by the kernel as dropped because the
	// gateway's socket buffer was full.
	complete bool
	// toNode: gateway A forwards the packets, and its node refuses them.
	toNode bool
	// passes is why marked packets may pass. Empty: none may.
	passes string
	// exactly is how many do, where that is known, and why.
	exactly int
	why     string
	// meanwhile runs while the attack does. What it returns is told in the report.
	meanwhile func(t *testing.T) string
}

// shots are the packets of a flood and their sender.
type shots struct {
	send   sender
	packet func(i int) []byte
}

// hostile is a topology under attack.
type hostile struct {
	t         *testing.T // of all attacks
	title     string
	more      string // of gateway A's configuration
	top       *lab.Topology
	node      *node.Kernel // of node A
	watch     *markWatch
	loads     []*load
	calm      []float64 // goodput of the undisturbed windows, bytes per second
	idle      []share   // their CPU use
	rows      []row
	attacks   uint8
	servers   int
	attackers attackers
	straight  float64 // goodput without a limit, bytes per second
}

// Windows of a run: a short one for every change, a long one for the published figures.
var (
	hostileReport            = os.Getenv("LAB_HOSTILE_REPORT")
	calmWindow, attackWindow = 400 * time.Millisecond, 1000 * time.Millisecond
)

func init() {
	if hostileReport != "" {
		calmWindow, attackWindow = 800*time.Millisecond, 2000*time.Millisecond
	}
}

// begin starts the transfer: first without a limit, to measure the maximum and to fill
// every pool, then at two fifths of it. The cost of an attack beyond the spare CPU time
// appears as lost goodput.
func (h *hostile) begin(t *testing.T) {
	t.Helper()
	directions := h.top.Directions()
	h.loads = []*load{startLoad(t, directions[0], 1), startLoad(t, directions[3], 2)} // IPv4 A to B, IPv6 B to A
	time.Sleep(time.Second)
	full, _ := h.window(t, 2*time.Second)
	h.straight = full
	for _, ld := range h.loads {
		ld.rate.Store(int64(full * 2 / 5 / float64(len(h.loads))))
	}
	t.Logf("transfer without a limit: %.2f Gbit/s both directions together; with it: %.2f", full*8/1e9, full*8/1e9*2/5)
	time.Sleep(time.Second)
}

// window measures the goodput of both streams, in bytes per second.
func (h *hostile) window(t *testing.T, d time.Duration) (float64, share) {
	t.Helper()
	before := make([]int64, len(h.loads))
	for i, ld := range h.loads {
		before[i] = ld.received.Load()
	}
	cpu, started := h.cpu(t), time.Now()
	time.Sleep(d)
	took, sum := time.Since(started).Seconds(), int64(0)
	for i, ld := range h.loads {
		sum += ld.received.Load() - before[i]
	}
	return float64(sum) / took, h.cpu(t).over(cpu, took)
}

// expectProgress fails the test if a stream has stalled: the goodput during an attack
// depends on the machine, but the gateways must continue afterwards.
func (h *hostile) expectProgress(t *testing.T) {
	t.Helper()
	for _, ld := range h.loads {
		before := ld.received.Load()
		wait.Until(t, "the transfer continues after the attack, "+ld.name, func() bool { return ld.received.Load() > before })
	}
}

// expectMemoryBack compares with the gateways' memory before the first attack.
func (h *hostile) expectMemoryBack(t *testing.T) {
	t.Helper()
	if len(h.rows) > 0 {
		h.settle(t, h.rows[0].memory[0])
	}
}

// all runs attacks one after the other, each as a subtest.
func (h *hostile) all(t *testing.T, attacks []attack) {
	t.Helper()
	for _, a := range attacks {
		t.Run(a.threat+" "+a.name, func(t *testing.T) {
			h.run(t, a)
		})
	}
}

// run runs an attack and checks the result. The undisturbed window before it is part of the
// median to which all are compared.
func (h *hostile) run(t *testing.T, a attack) {
	t.Helper()
	h.attacks++
	n := h.attacks
	length, rate := attackWindow, a.rate
	if len(h.loads) == 0 {
		length, rate = time.Second/4, min(rate, 2000) // nothing is measured: only whether anything passes
	} else {
		goodput, cpu := h.window(t, calmWindow)
		h.calm, h.idle = append(h.calm, goodput), append(h.idle, cpu)
	}

	counters, before := h.counters(t), h.memory(t)
	r := row{threat: a.threat, name: a.name, memory: [3]memory{0: before}, passes: a.passes + a.why}
	var fs []func(<-chan struct{}) int
	for _, f := range a.floods(t, n) {
		fs = append(fs, func(stop <-chan struct{}) int { return flood(f.send, f.packet, rate, stop) })
	}
	counted := func() float64 {
		r.counted = h.counters(t).since(counters)
		var sum float64
		for _, name := range append(slices.Clone(a.counted), "a/overlay/overflow", "a/wireguard/overflow") {
			sum += r.counted[name]
		}
		return sum
	}
	started := time.Now()
	r.sent = floods(fs, func() {
		r.goodput, r.cpu = h.window(t, length)
		if a.meanwhile != nil {
			r.note = a.meanwhile(t) // afterwards: it may take longer than the window
		}
		r.memory[1] = h.memory(t)
		lab.Eventually(t, fmt.Sprintf("drops are counted as each of %v", a.counted), func() bool {
			counted()
			return !slices.ContainsFunc(a.counted, func(name string) bool { return r.counted[name] == 0 })
		})
	})
	r.rate = float64(r.sent) / time.Since(started).Seconds()
	if a.complete {
		lab.Eventually(t, fmt.Sprintf("the drops of all %d packets are counted", r.sent), func() bool { return counted() >= float64(r.sent) })
	}
	counted()
	var where string
	var except string
	if a.toNode {
		except = toNodeA
	}
	r.seen, where = h.watch.count(n, except)
	if r.seen != a.exactly && a.passes == "" {
		t.Errorf("%s: %d packets passed, want %d: %s", a.name, r.seen, a.exactly, where)
	}
	h.expectProgress(t)
	r.memory[2] = h.settle(t, before)
	h.rows = append(h.rows, r)
	t.Log(r.line(h.median()))
}

// memory is the gateways' memory: resident and heap, in KiB.
type memory struct{ rss, heap [2]int }

// The heap must return to within a twentieth of its previous size, plus this many KiB:
// garbage of one collection, and buffers in transit. Resident memory follows late, because
// the runtime keeps pages, and most of the heap are buffers of 64 KiB for datagrams of any
// size, of which only the first pages are touched until a flood arrives: its limit is half
// of the memory limit of a gateway's container.
const (
	heapSlack = 4 << 10
	rssLimit  = 256 << 10
)

// settle waits until the gateways' memory has returned to its previous level.
func (h *hostile) settle(t *testing.T, before memory) (after memory) {
	t.Helper()
	filled := len(h.loads) > 0 // the transfer fills all buffer pools; otherwise the first flood does, and they stay filled
	lab.Eventually(t, fmt.Sprintf("memory returns to heap %v KiB, resident %v", before.heap, before.rss), func() bool {
		after = h.memory(t)
		fits := true
		for i := range after.heap {
			fits = fits && (!filled || after.heap[i] <= before.heap[i]*21/20+heapSlack) && after.rss[i] <= rssLimit
		}
		return fits
	})
	return after
}

func (h *hostile) memory(t *testing.T) (m memory) {
	t.Helper()
	for i, s := range []*lab.Site{h.top.A, h.top.B} {
		m.heap[i] = int(s.Gateway.Metric(t, "go_memstats_heap_alloc_bytes")) >> 10
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Gateway.Cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		value, _ := lab.StatusField(string(status), "VmRSS")
		if m.rss[i], err = strconv.Atoi(strings.TrimSuffix(value, " kB")); err != nil {
			t.Fatalf("VmRSS: %v", err)
		}
	}
	return m
}

// share is processor time: in seconds, or in processors if per second.
type share struct {
	gateways float64 // both gateways
	lab      float64 // attackers, watchers, both ends of the transfer, and the kernel on their behalf
	all      float64 // of the machine, including unaccounted kernel time and other programs
}

// over returns the use over a time, in processors.
func (s share) over(before share, seconds float64) share {
	return share{(s.gateways - before.gateways) / seconds, (s.lab - before.lab) / seconds, (s.all - before.all) / seconds}
}

// cpu returns the processor time used so far.
func (h *hostile) cpu(t *testing.T) (s share) {
	t.Helper()
	for _, g := range []*lab.Site{h.top.A, h.top.B} {
		s.gateways += processTime(t, g.Gateway.Cmd.Process.Pid)
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	s.lab = time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
	s.all = program.MachineTime(t).Seconds()
	return s
}

// ticksPerSecond is USER_HZ, the unit of /proc: 100 on every Linux that Go supports.
const ticksPerSecond = 100

// processTime returns the processor time of a process, in seconds.
func processTime(t *testing.T, pid int) float64 {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest) // from the third on, proc(5)
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / ticksPerSecond
}

// counted is a reading of drop counters, by "gateway/direction/reason".
type counted map[string]float64

func (c counted) since(before counted) counted {
	rise := make(counted)
	for name, value := range c {
		if value > before[name] {
			rise[name] = value - before[name]
		}
	}
	return rise
}

// counters returns the drop counters of both gateways and of node A.
func (h *hostile) counters(t *testing.T) counted {
	t.Helper()
	c := make(counted)
	for _, s := range []*lab.Site{h.top.A, h.top.B} {
		body, _, err := s.Gateway.Get("/metrics")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(body) {
			series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				continue
			}
			switch name, labels, _ := strings.Cut(series, "{"); name {
			case "strait_dropped_packets_total":
				c[s.Name+"/"+label(labels, "direction")+"/"+label(labels, "reason")] += v
			case "strait_wireguard_dropped_datagrams_total":
				c[s.Name+"/wireguard/"+label(labels, "reason")] += v
			case "strait_receive_queue_overflow_total":
				c[s.Name+"/"+label(labels, "socket")+"/overflow"] += v
			}
		}
	}
	refused, err := h.node.Refused()
	if err != nil {
		t.Fatal(err)
	}
	for of, packets := range refused {
		c["a/node/"+of.Reason] += float64(packets)
	}
	return c
}

// label returns one of a series' labels.
func label(labels, name string) string {
	_, rest, _ := strings.Cut(","+labels, ","+name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}
