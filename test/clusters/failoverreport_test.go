package clusters

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"strait.dev/strait/bench/report"
	"strait.dev/strait/bench/result"
)

// failoverRun is the results of a run of `make failover`.
type failoverRun struct {
	Time    time.Time      `json:"time"` // of the start
	Machine result.Machine `json:"machine"`
	Flows   int            `json:"flows"`
	Period  int            `json:"periodMilliseconds"` // of the messages of a flow

	Faults []faultSample `json:"faults"`
}

func (r *failoverRun) write(name string) error { return writeResults(name, r, `{"topology":`) }

// plotFile is the name of the page's plot in the folder images.
const plotFile = "failover.svg"

// writePage writes the page of the run and its plot.
func (r *failoverRun) writePage(name string) error {
	plot, err := r.plot()
	if err != nil {
		return err
	}
	images := filepath.Join(filepath.Dir(name), "images")
	if err := os.MkdirAll(images, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(images, plotFile), plot, 0o644); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(r.page()), 0o644)
}

// outageUnit is nanoseconds, so that package report chooses the prefix.
const outageUnit = "outage-ns"

// plot draws the outages of each fault: a bar to the median, a dot at each percentile, a line
// from the shortest to the longest.
func (r *failoverRun) plot() ([]byte, error) {
	run := &result.Run{}
	figure := report.Figure{Title: "Outage of the flows that used what failed", Note: "a dot is a percentile; bar: median, line: shortest to longest; less is better"}
	for _, s := range summaries(everyAPI(r.Faults)) {
		for _, protocol := range []struct {
			name    string
			outages []float64
		}{{"UDP", s.udp()}, {"TCP", s.tcp()}} {
			if len(protocol.outages) == 0 {
				continue
			}
			key := result.Key{Test: s.Fault, Mode: s.Topology, Subject: protocol.name, Unit: outageUnit}
			for percent := range 101 {
				ms := quantile(protocol.outages, float64(percent)/100)
				run.Samples = append(run.Samples, result.Sample{Test: key.Test, Mode: key.Mode, Subject: key.Subject, Metrics: map[string]float64{outageUnit: ms * 1e6}})
			}
			figure.Bars = append(figure.Bars, report.Bar{Label: s.Fault + " · " + s.Topology + " · " + protocol.name, Key: key, Own: protocol.name == "UDP"})
		}
	}
	var svg bytes.Buffer
	_, err := report.SVG(&svg, run, figure)
	return svg.Bytes(), err
}

// everyAPI returns the samples without the state of the API servers.
func everyAPI(samples []faultSample) []faultSample {
	samples = slices.Clone(samples)
	for i := range samples {
		samples[i].API = ""
	}
	return samples
}

// page returns the page of the run in Markdown.
func (r *failoverRun) page() string {
	var b strings.Builder
	b.WriteString("# Failover\n\n")
	r.writeHeadline(&b)
	fmt.Fprintf(&b, `
![Outage of the flows that used what failed](images/%s)

## What was measured

| | |
|---|---|
| date | %s |
| machine | %s |
| command | `+"`make failover`"+`; FAILOVER_KILLS and FAILOVER_FAULTS set the numbers of faults |
| flows | %d, each with a message every %d ms |

`+"`make failover`"+` writes this page, its plot and the results of every fault ([failover.json](failover.json)); do not edit them.

Two clusters with overlapping pod CIDRs are joined. API servers, controllers, gateways and node helpers are the real programs, in network namespaces; nodes encapsulate in the kernel if it has Geneve or VXLAN. The test takes the place of kubelets, the CNI and kube-proxy. Each gateway has a node of its own; the flows begin and end on other nodes. Half of the flows are UDP and half are the two directions of TCP connections; of each, half are IPv6, and half are sent by each cluster. Each end has 32 addresses of both families. After each fault all flows are replaced by new ones, so that they use all gateways again. API servers that are "away" have ended before the faults and start after the last one. All programs share the cores of the machine.

- The **outage** of a flow is the time from sending the first message that is not delivered until the next delivery. For TCP it includes the time until the sender's kernel sends again: one, three and seven times its retransmission timeout after the first loss.%s
- Before each fault a capture in the gateways shows **which flows use** the gateway or the link. A TCP connection uses it if one of its directions does.
- The other flows have to **lose** nothing. Overflow and lost probes show whether the machine was too slow: datagrams that the kernel dropped because gateways without the fault did not read them in time, and lost probes of links between such gateways.

| fault | |
|---|---|
| %s | SIGKILL of a random gateway. It is started again after the measurement |
| %s | SIGSTOP of a random gateway, SIGCONT 5 s later |
| %s | all links of the node of a random gateway go down |
| %s | all packets between a random gateway and those of the other cluster are dropped; its node reaches it |
| %s | WireGuard packets from one random gateway to one of the other cluster are dropped, not those back |

`, plotFile, r.Time.Format("2006-01-02"), r.Machine, r.Flows, r.Period, r.timeouts(),
		nameKilled, nameStopped, nameCutOff, nameLinksDown, nameOneWay)
	writeTargets(&b, r.targets())
	r.writeFaults(&b)
	return b.String()
}

// timeouts returns a sentence about the retransmission timeouts before the faults; empty if they were not measured.
func (r *failoverRun) timeouts() string {
	var medians, longest []float64
	for _, s := range r.Faults {
		if s.RTO > 0 {
			medians, longest = append(medians, s.RTO), append(longest, s.RTO99)
		}
	}
	if len(medians) == 0 {
		return ""
	}
	return fmt.Sprintf(" Before the faults that was %s (median) and %s (99th percentile); the least that Linux sets is 0.20 s, and round trips that vary make it longer.",
		seconds(quantile(medians, 0.5)), seconds(quantile(longest, 0.5)))
}

// writeHeadline summarizes the kills.
func (r *failoverRun) writeHeadline(b *strings.Builder) {
	udp, tcp, kills, others, lost := []float64{}, []float64{}, 0, 0, uint64(0)
	for _, s := range r.Faults {
		if s.Fault == nameKilled {
			kills++
			udp, tcp = append(udp, s.udp()...), append(tcp, s.tcp()...)
			others, lost = others+s.Others, lost+s.OtherLost
		}
	}
	if len(udp) == 0 || len(tcp) == 0 {
		return
	}
	fmt.Fprintf(b, "%d times, a gateway was killed. UDP flows that used it had an outage of %s (median), %s (99th percentile), %s (longest); TCP flows %s, %s, %s.\nThe other flows lost %d messages (%d flows).\n",
		kills, seconds(quantile(udp, 0.5)), seconds(quantile(udp, 0.99)), seconds(quantile(udp, 1)),
		seconds(quantile(tcp, 0.5)), seconds(quantile(tcp, 0.99)), seconds(quantile(tcp, 1)), lost, others)
}

func seconds(ms float64) string { return fmt.Sprintf("%.2f s", ms/1000) }

const targetOutage = 1000 // milliseconds, of the 99th percentile

// target is a row of the table of targets.
type target struct {
	measure, target, measured string
	met                       bool
}

// targets returns the targets that the run measured.
func (r *failoverRun) targets() (all []target) {
	for _, s := range summaries(everyAPI(r.Faults)) {
		for _, protocol := range []struct {
			name    string
			outages []float64
		}{{"UDP", s.udp()}, {"TCP", s.tcp()}} {
			if len(protocol.outages) > 0 {
				p99 := quantile(protocol.outages, 0.99)
				all = append(all, target{s.Topology + ", " + s.Fault + ": outage of " + protocol.name + " flows that used it, 99th percentile", "≤ 1 s", seconds(p99), p99 <= targetOutage})
			}
		}
		if s.Others > 0 {
			all = append(all, target{s.Topology + ", " + s.Fault + ": messages lost by other flows", "0", fmt.Sprint(s.OtherLost), s.OtherLost == 0})
		}
	}
	return all
}

// writeTargets writes a table of targets.
func writeTargets(b *strings.Builder, targets []target) {
	b.WriteString("## Targets\n\n| measure | target | measured | |\n|---|---|---|---|\n")
	for _, t := range targets {
		verdict := "missed"
		if t.met {
			verdict = "met"
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", t.measure, t.target, t.measured, verdict)
	}
}

func (r *failoverRun) writeFaults(b *strings.Builder) {
	b.WriteString("\n## All faults\n\nTimes are in milliseconds. The last six columns are about flows that did not use what failed.\n\n")
	fmt.Fprintf(b, "| %s |\n|%s\n", strings.Join(faultColumns, " | "), strings.Repeat("---|", len(faultColumns)))
	for _, s := range summaries(r.Faults) {
		fmt.Fprintf(b, "| %s |\n", strings.Join(s.cells(), " | "))
	}
}
