//go:build nightly

package scale

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"strait.dev/strait/bench/measure"
)

// Bounds of a full run.
const (
	gatewayMemory  = 64 << 20 // bytes by which a gateway of 5 000 nodes may exceed one of one node
	helperMemory   = 48 << 20 // bytes
	helperRequests = 0.1      // per second, without changes
	readyWithin    = 2 * time.Second
)

// results are the results of one run.
type results struct {
	nodes, attachments, pods, listed time.Duration // durations
	gatewayStart, helperStart        usage
	far                              usage // of a gateway with one node, at the end
	rest, churn                      phase
	changes                          *changes
}

// row is a line of the table.
type row struct {
	what, is string
	bound    string // empty: none
	missed   bool
}

func (r *results) rows(s size) (rows []row) {
	add := func(what, is string) { rows = append(rows, row{what: what, is: is}) }
	bounded := func(what, is, bound string, kept bool) { rows = append(rows, row{what, is, bound, !kept}) }
	memory := func(name string, start usage) (peak int, is string) {
		add(name+": memory after the first list", mebibytes(start.resident, start.anonymous))
		add(name+": memory without changes", mebibytes(r.rest.used[name].resident, r.rest.used[name].anonymous))
		peak = max(start.peak, r.rest.used[name].peak, r.churn.used[name].peak)
		add(name+": CPU for the first list", fmt.Sprintf("%.1f s", start.cpu.Seconds()))
		return peak, fmt.Sprintf("%.1f MiB (first list %.1f, changes %.1f)", inMiB(peak), inMiB(start.peak), inMiB(r.churn.used[name].peak))
	}
	cpu := func(name string) {
		add(name+": CPU without changes", share(r.rest, name))
		add(name+": CPU with changes", share(r.churn, name))
	}

	add("nodes, pods", fmt.Sprintf("%d, %d", s.nodes, s.pods))
	add("changes", fmt.Sprintf("%d, %.1f/s; 1 in %d outside of podCIDRs", r.changes.made, r.changes.rate(), outsideChurnShare))
	add("API server: one change", quantiles(r.changes.requests))
	add("controller: attachments for all nodes", r.attachments.Round(100*time.Millisecond).String())
	add("gateway: start until ready", r.listed.Round(100*time.Millisecond).String())
	bounded("pod's status to first packet at its node", quantiles(r.changes.ready), fmt.Sprintf("p99 %v", readyWithin),
		r.changes.ready.Count() > 0 && r.changes.ready.At(0.99) <= readyWithin)
	add("pod's removal to last packet sent to it", quantiles(r.changes.removed))
	bounded("pods not reached, or reached after deletion", fmt.Sprint(len(r.changes.failures)), "0", len(r.changes.failures) == 0)
	bounded("packets at a wrong node", fmt.Sprint(r.changes.strays), "0", r.changes.strays == 0)
	add("gateway: packets dropped with changes, most to pods that did not exist", counts(r.changes.dropped))
	most, is := memory("gateway", r.gatewayStart)
	add("gateway: peak memory", is)
	over := most - r.far.peak
	add("gateway of one node: peak memory", fmt.Sprintf("%.1f MiB", inMiB(r.far.peak)))
	bounded("gateway: peak memory over a gateway of one node", fmt.Sprintf("%.1f MiB", inMiB(over)), fmt.Sprintf("%d MiB", gatewayMemory>>20), over <= gatewayMemory)
	cpu("gateway")
	add("gateway: requests without changes", requests(r.rest, "gateway"))
	most, is = memory("helper", r.helperStart)
	bounded("helper: peak memory", is, fmt.Sprintf("%d MiB", helperMemory>>20), most <= helperMemory)
	cpu("helper")
	bounded("helper: requests without changes", requests(r.rest, "helper"), fmt.Sprintf("%v/s", helperRequests), r.rest.rate("helper") <= helperRequests)
	add("helper: requests with changes", requests(r.churn, "helper"))
	add("controller: memory without changes", mebibytes(r.rest.used["controller"].resident, r.rest.used["controller"].anonymous))
	cpu("controller")
	add("controller: requests without changes", requests(r.rest, "controller"))
	return rows
}

// check fails the test for missing measurements, and in a full run for missed bounds.
func (r *results) check(t *testing.T, s size, rows []row) {
	want := s.rate * s.seconds
	outside := (want/2 + outsideChurnShare - 1) / outsideChurnShare
	if r.changes.made != want || r.changes.ready.Count()+r.changes.removed.Count()+len(r.changes.failures) < outside {
		t.Errorf("%d changes, %d created and %d removed pods were measured; want %d, and %d of each",
			r.changes.made, r.changes.ready.Count(), r.changes.removed.Count(), want, outside)
	}
	for _, failure := range r.changes.failures[:min(len(r.changes.failures), 10)] {
		t.Error(failure)
	}
	for _, of := range []phase{r.rest, r.churn} {
		for name, u := range of.used {
			if u.resident == 0 || u.peak < u.resident {
				t.Errorf("%s: memory was not measured: %+v", name, u)
			}
		}
		for _, program := range []string{"helper", "gateway"} {
			for request := range of.requests[program] {
				if strings.HasPrefix(request.Resource, "pods") {
					t.Errorf("the %s requests pods: %+v", program, request)
				}
			}
		}
	}
	if !s.bounds {
		return
	}
	for _, one := range rows {
		if one.missed {
			t.Errorf("%s: %s, and at most %s", one.what, one.is, one.bound)
		}
	}
}

// table formats rows in Markdown.
func table(rows []row) string {
	text := new(strings.Builder)
	fmt.Fprint(text, "| measure | value | limit |\n|---|---|---|\n")
	for _, one := range rows {
		bound := one.bound
		if one.missed {
			bound += ", missed"
		}
		fmt.Fprintf(text, "| %s | %s | %s |\n", one.what, one.is, bound)
	}
	return text.String()
}

func quantiles(l *measure.Latencies) string {
	show := func(part float64) time.Duration {
		return l.At(part).Round(100 * time.Microsecond)
	}
	return fmt.Sprintf("p50 %v, p90 %v, p99 %v, max %v (%d)", show(0.5), show(0.9), show(0.99), show(1), l.Count())
}

func share(p phase, name string) string {
	return fmt.Sprintf("%.1f %% of a core", 100*p.used[name].cpu.Seconds()/p.span.Seconds())
}

func requests(p phase, name string) string {
	each := make(map[string]int)
	for request, n := range p.requests[name] {
		each[request.Verb+" "+request.Resource] += n
	}
	text := fmt.Sprintf("%.3f/s", p.rate(name))
	if len(each) > 0 {
		text += " (" + counts(each) + ")"
	}
	return text
}

func counts(of map[string]int) string {
	if len(of) == 0 {
		return "none"
	}
	var all []string
	for _, what := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s %d", what, of[what]))
	}
	return strings.Join(all, ", ")
}

func mebibytes(resident, anonymous int) string {
	return fmt.Sprintf("%.1f MiB, anonymous %.1f", inMiB(resident), inMiB(anonymous))
}

func inMiB(bytes int) float64 { return float64(bytes) / (1 << 20) }
