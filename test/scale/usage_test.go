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

// watched is a program whose costs are measured.
type watched struct {
	name, user string // the user is what the API server calls it
	*program.Program
}

// usage is what a process has used since it began, and its memory in bytes.
type usage struct {
	cpu                 time.Duration
	resident, anonymous int
	peak                int // of resident, since forgetPeak
}

// hertz is the unit of times in /proc, on all machines that Linux runs on today.
const hertz = 100

func (p watched) usage(t *testing.T) (u usage) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	must(t, err)
	for field, into := range map[string]*int{"VmRSS": &u.resident, "RssAnon": &u.anonymous, "VmHWM": &u.peak} {
		found := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(status)
		if found == nil {
			t.Fatalf("%s has ended: its status has no %s; it logged last:\n%s", p.name, field, p.Log())
		}
		*into, err = strconv.Atoi(string(found[1]))
		must(t, err)
		*into <<= 10
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	must(t, err)
	_, after, _ := strings.Cut(string(stat), ") ") // of the name, which may hold anything
	fields := strings.Fields(after)
	for _, field := range fields[11:13] { // utime and stime; proc(5) counts from 1, and the name is 2
		ticks, err := strconv.Atoi(field)
		must(t, err)
		u.cpu += time.Duration(ticks) * time.Second / hertz
	}
	return u
}

// forgetPeak makes the peak begin at what there is now.
func (p watched) forgetPeak(t *testing.T) {
	t.Helper()
	const peakOnly = "5"
	must(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte(peakOnly), 0))
}

// phase is what programs used while something happened.
type phase struct {
	span     time.Duration
	used     map[string]usage // by name of the program; CPU and peak of the phase alone
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

// rate is how many requests a program made each second.
func (p phase) rate(name string) float64 {
	sum := 0
	for n := range maps.Values(p.requests[name]) {
		sum += n
	}
	return float64(sum) / p.span.Seconds()
}

var dropLine = regexp.MustCompile(`(?m)^strait_dropped_packets_total\{direction="(\w+)",.*reason="(\w+)"\} (\S+)$`)

// drops are the packets that the gateway has dropped, by direction and reason.
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
