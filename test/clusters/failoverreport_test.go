package clusters

import (
	"bytes"
	"cmp"
	"encoding/json"
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

	Faults     []faultSample      `json:"faults"`
	Throughput []throughputSample `json:"throughput"`
	Spread     []spreadSample     `json:"spread"`
	Regroup    []regroupSample    `json:"regroup"`
}

// throughputSample is what some gateways with little CPU time carried from one cluster to the
// other.
type throughputSample struct {
	Gateways int `json:"gateways"` // of each cluster
	Size     int `json:"size"`     // bytes of payload of a datagram
	Flows    int `json:"flows"`

	// Without a limit.
	Load      float64 `json:"load"`      // datagrams per second offered to each gateway
	Delivered float64 `json:"delivered"` // part of them
	CPUPerGB  float64 `json:"cpuPerGB"`  // CPU-seconds of all gateways per 10⁹ bytes of payload

	CPUs float64 `json:"cpus"` // limit of each gateway
	Rate float64 `json:"rate"` // datagrams per second that arrived of more than the gateways carry
	Busy float64 `json:"busy"` // part of the limits of all gateways that they used meanwhile
	Idle float64 `json:"idle"` // part of the machine's CPU time that nothing used meanwhile

	// The same seconds later, of as many gateways of as many pairs of clusters, which have nothing in common, and of one gateway.
	ApartCPUPerGB float64 `json:"apartCPUPerGB"`
	OneCPUPerGB   float64 `json:"oneCPUPerGB"`
	Apart         float64 `json:"apart"`
	One           float64 `json:"one"`
}

// spreadSample is how many flows of a direction passed each gateway of a cluster.
type spreadSample struct {
	Flows   int            `json:"flows"`
	From    string         `json:"from"` // cluster of the senders
	Through map[string]int `json:"through"`
}

// regroupSample is how many flows moved from one gateway to another although only a third one was
// killed.
type regroupSample struct {
	ChosenBy string `json:"chosenBy"` // what chooses among the gateways: nodes or gateways
	Protocol string `json:"protocol"` // TCP or UDP
	Gateways int    `json:"gateways"` // before the kill
	Flows    int    `json:"flows"`    // through the others
	Moved    int    `json:"moved"`
}

// readRun reads what write wrote.
func readRun(name string) (*failoverRun, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r := new(failoverRun)
	return r, json.Unmarshal(text, r)
}

// write writes the run as JSON, one sample a line.
func (r *failoverRun) write(name string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	for _, begin := range []string{`{"topology":`, `{"gateways":`, `{"flows":`, `{"chosenBy":`} {
		text = bytes.ReplaceAll(text, []byte(begin), []byte("\n"+begin))
	}
	return os.WriteFile(name, append(bytes.TrimSpace(text), '\n'), 0o644)
}

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
	r.writeTargets(&b)
	r.writeFaults(&b)
	r.writeThroughput(&b)
	r.writeSpread(&b)
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

// The targets of failover.
const (
	targetOutage = 1000 // milliseconds, of the 99th percentile
	targetAddUp  = 0.95 // of the throughput of as many gateways that have nothing in common
	targetCPU    = 1.05 // of the CPU time per GB of one gateway
	targetShare  = 0.32 // of 1,000 flows, of the busiest of 4 gateways
)

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
	for _, s := range r.throughputs() {
		if s.Gateways == 1 {
			continue
		}
		what := fmt.Sprintf("%d gateways, %d bytes: ", s.Gateways, s.Size)
		all = append(all,
			target{what + "throughput", fmt.Sprintf("≥ %.2f × gateways apart", targetAddUp), fmt.Sprintf("%.2f", s.rateToApart), s.rateToApart >= targetAddUp},
			target{what + "CPU time per GB, each with the same load", fmt.Sprintf("≤ %.2f × one", targetCPU), fmt.Sprintf("%.2f", s.cpuToOne), s.cpuToOne <= targetCPU})
	}
	for _, s := range r.Spread {
		share := s.busiest()
		all = append(all, target{fmt.Sprintf("%d flows from %s: the busiest of %d gateways (%s)", s.Flows, s.From, len(s.Through), s.cluster()), "≤ 32 %", fmt.Sprintf("%.0f %%", 100*share), share <= targetShare})
	}
	return all
}

func (r *failoverRun) writeTargets(b *strings.Builder) {
	b.WriteString("## Targets\n\n| measure | target | measured | |\n|---|---|---|---|\n")
	for _, t := range r.targets() {
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

// throughputSummary is the medians of all samples with equal conditions, and of their ratios.
type throughputSummary struct {
	throughputSample
	rateToOne, rateToApart float64
	cpuToOne, cpuToApart   float64 // CPU time per GB
}

// throughputs returns the summaries, by size and number of gateways.
func (r *failoverRun) throughputs() (all []throughputSummary) {
	groups := map[[2]int][]throughputSample{}
	for _, s := range r.Throughput {
		key := [2]int{s.Size, s.Gateways}
		if groups[key] == nil {
			all = append(all, throughputSummary{throughputSample: s})
		}
		groups[key] = append(groups[key], s)
	}
	slices.SortStableFunc(all, func(a, b throughputSummary) int {
		return cmp.Or(a.Size-b.Size, a.Gateways-b.Gateways)
	})
	for i := range all {
		s := &all[i]
		median := func(of func(throughputSample) float64) float64 {
			var values []float64
			for _, sample := range groups[[2]int{s.Size, s.Gateways}] {
				values = append(values, of(sample))
			}
			return quantile(values, 0.5)
		}
		s.Delivered = median(func(s throughputSample) float64 { return s.Delivered })
		s.CPUPerGB = median(func(s throughputSample) float64 { return s.CPUPerGB })
		s.cpuToOne = median(func(s throughputSample) float64 { return s.CPUPerGB / s.OneCPUPerGB })
		s.cpuToApart = median(func(s throughputSample) float64 { return s.CPUPerGB / s.ApartCPUPerGB })
		s.Rate = median(func(s throughputSample) float64 { return s.Rate })
		s.rateToOne = median(func(s throughputSample) float64 { return s.Rate / s.One })
		s.rateToApart = median(func(s throughputSample) float64 { return s.Rate / s.Apart })
		s.Busy = median(func(s throughputSample) float64 { return s.Busy })
		s.Idle = median(func(s throughputSample) float64 { return s.Idle })
	}
	return all
}

func (r *failoverRun) writeThroughput(b *strings.Builder) {
	all := r.throughputs()
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, `
## Throughput adds up

%d UDP flows from one cluster to the other, measured in two ways:

- **Same load**, without a limit: %.0f datagrams per second for each gateway. CPU time per GB is that of all gateways per 10⁹ bytes of payload.
- **Limited**: each gateway is held to %.2g of a CPU by a control group, so that the gateways are the bound and not the other programs of the two clusters, and more is offered than they carry. Busy is the part of their CPU time that all gateways used, idle what the machine had left: little of either means that something else was the bound. What a gateway does at rest is part of its limit.

Seconds later the same is measured of one gateway (**× one**), and of as many gateways of as many pairs of clusters (**× apart**). These have nothing in common but the machine, whose caches and memory all gateways share: how much one does in a second of CPU time depends on how many others run. One gateway apart is the same as one gateway: how far that row is from 1 is the error. All figures are medians of %d rounds.

| bytes | gateways of each cluster | same load: delivered | CPU-s per GB | × one | × apart | limited: datagrams per second | × one | × apart | busy | machine idle |
|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
`, all[0].Flows, all[0].Load, all[0].CPUs, len(r.Throughput)/len(all))
	for _, s := range all {
		fmt.Fprintf(b, "| %d | %d | %.1f %% | %.2f | %.2f | %.2f | %.0f | %.2f | %.2f | %.0f %% | %.0f %% |\n",
			s.Size, s.Gateways, 100*s.Delivered, s.CPUPerGB, s.cpuToOne, s.cpuToApart, s.Rate, s.rateToOne, s.rateToApart, 100*s.Busy, 100*s.Idle)
	}
}

// cluster is the cluster of the gateways.
func (s spreadSample) cluster() string {
	for gateway := range s.Through {
		name, _, _ := strings.Cut(gateway, "/")
		return name
	}
	return ""
}

// busiest returns the part of the flows that pass the busiest gateway.
func (s spreadSample) busiest() float64 {
	most := 0
	for _, n := range s.Through {
		most = max(most, n)
	}
	return float64(most) / float64(max(1, s.Flows))
}

func (r *failoverRun) writeSpread(b *strings.Builder) {
	if len(r.Spread) == 0 {
		return
	}
	b.WriteString("\n## Spread of flows\n\n| flows | from cluster | flows through each gateway |\n|---|---|---|\n")
	for _, s := range r.Spread {
		var all []string
		for gateway, n := range s.Through {
			all = append(all, fmt.Sprintf("%s %d", gateway, n))
		}
		slices.Sort(all)
		fmt.Fprintf(b, "| %d | %s | %s |\n", s.Flows, s.From, strings.Join(all, ", "))
	}
	if len(r.Regroup) == 0 {
		return
	}
	b.WriteString("\nThen one gateway was killed. Flows through the others should stay where they are; they move once if the kernel of the node has no resilient next-hop groups. A TCP connection can move by itself: after a retransmission timeout, which the death of the gateway in its other direction causes, Linux chooses another hash and IPv6 flow label for it.\n\n| chosen by | protocol | gateways | flows through the others | moved |\n|---|---|---:|---:|---:|\n")
	for _, s := range r.Regroup {
		fmt.Fprintf(b, "| %s | %s | %d | %d | %d |\n", s.ChosenBy, cmp.Or(s.Protocol, "TCP and UDP"), s.Gateways, s.Flows, s.Moved)
	}
}
