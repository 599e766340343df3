//go:build nightly

package scale

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/program"
)

// watched is a measured program.
type watched struct {
	name, user string // user is its name at the API server
	*program.Program
}

// usage is the resource use of a process since it started, and its memory in bytes.
type usage struct {
	cpu                 time.Duration
	resident, anonymous int
	peak                int // of resident, since forgetPeak
}

// hertz is the unit of times in /proc on all common machines.
const hertz = 100

func (p watched) usage(t *testing.T) (u usage) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	must(t, err)
	for field, into := range map[string]*int{"VmRSS": &u.resident, "RssAnon": &u.anonymous, "VmHWM": &u.peak} {
		found := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(status)
		if found == nil {
			t.Fatalf("%s has ended: its status has no %s; end of its log:\n%s", p.name, field, p.Log())
		}
		*into, err = strconv.Atoi(string(found[1]))
		must(t, err)
		*into <<= 10
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	must(t, err)
	_, after, _ := strings.Cut(string(stat), ") ") // after the name, which may contain anything
	fields := strings.Fields(after)
	for _, field := range fields[11:13] { // utime and stime; proc(5) counts from 1, and the name is 2
		ticks, err := strconv.Atoi(field)
		must(t, err)
		u.cpu += time.Duration(ticks) * time.Second / hertz
	}
	return u
}

// forgetPeak resets the peak to the current memory use.
func (p watched) forgetPeak(t *testing.T) {
	t.Helper()
	const peakOnly = "5"
	must(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte(peakOnly), 0))
}

// phase is the resource use of programs during a phase.
type phase struct {
	span     time.Duration
	used     map[string]usage // by program; CPU time and peak of this phase only
	requests map[string]map[kube.Request]int
}

// during measures programs while do runs.
func (w *world) during(t *testing.T, what string, programs []watched, do func()) phase {
	t.Helper()
	w.say("measuring while %s, %v", what, w.span())
	before := make(map[string]usage)
	asked := w.api.Requests(t)
	for _, p := range programs {
		p.forgetPeak(t)
		before[p.name] = p.usage(t)
	}
	begun := time.Now()
	do()
	of := phase{span: time.Since(begun), used: make(map[string]usage), requests: make(map[string]map[kube.Request]int)}
	for _, p := range programs {
		u := p.usage(t)
		u.cpu -= before[p.name].cpu
		of.used[p.name], of.requests[p.name] = u, make(map[kube.Request]int)
	}
	for request, n := range w.api.Requests(t) {
		for _, p := range programs {
			if more := n - asked[request]; request.User == p.user && more > 0 {
				of.requests[p.name][request] = more
			}
		}
	}
	return of
}

// rate returns a program's requests per second.
func (p phase) rate(name string) float64 {
	sum := 0
	for n := range maps.Values(p.requests[name]) {
		sum += n
	}
	return float64(sum) / p.span.Seconds()
}

var dropLine = regexp.MustCompile(`(?m)^strait_dropped_packets_total\{direction="(\w+)",.*reason="(\w+)"\} (\S+)$`)

// drops returns the packets dropped by the gateway, by direction and reason.
func (w *world) drops(t *testing.T) map[string]int {
	t.Helper()
	text, err := get(w.near, nearGateway, "/metrics")
	must(t, err)
	drops := make(map[string]int)
	for _, found := range dropLine.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(found[3], 64)
		must(t, err)
		drops[found[1]+" "+found[2]] = int(n)
	}
	if len(drops) == 0 {
		t.Fatal("the gateway's metrics have no dropped packets")
	}
	return drops
}
