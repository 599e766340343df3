package clusters

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"strait.dev/strait/bench/result"
)

// throughputRun is the results of a run of `make throughput`.
type throughputRun struct {
	Time    time.Time      `json:"time"` // of the start
	Machine result.Machine `json:"machine"`
	Flows   int            `json:"flows"`
	Load    float64        `json:"load"` // datagrams per second for each gateway without a limit
	CPUs    float64        `json:"cpus"` // limit of each gateway

	Loaded  []throughputSample `json:"loaded"`  // without the limit
	Limited []throughputSample `json:"limited"` // with it, and more datagrams than gateways carry
	Spread  []spreadSample     `json:"spread"`
	Regroup []regroupSample    `json:"regroup"`
}

// throughputSample is what some gateways of each of two clusters carried from one cluster to the other, and one gateway of each
// of two other clusters.
type throughputSample struct {
	Gateways int     `json:"gateways"` // of each cluster
	Size     int     `json:"size"`     // bytes of payload of a datagram
	Some     carried `json:"some"`
	One      carried `json:"one"` // at the same time
}

// carried is what gateways carried.
type carried struct {
	Rate    float64 `json:"rate"`    // datagrams per second
	Offered float64 `json:"offered"` // the same of the sender
	CPU     float64 `json:"cpu"`     // CPU time of all gateways, CPU-seconds per second
	Idle    float64 `json:"idle"`    // part of the machine's CPU time that nothing used
}

// cpuPerGB returns the CPU-seconds per 10⁹ bytes of payload of datagrams of a size.
func (c carried) cpuPerGB(size int) float64 { return c.CPU / (c.Rate * float64(size)) * 1e9 }

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

func (r *throughputRun) write(name string) error {
	return writeResults(name, r, `{"gateways":`, `{"flows":`, `{"chosenBy":`)
}

// writePage writes the page of the run.
func (r *throughputRun) writePage(name string) error {
	return os.WriteFile(name, []byte(r.page()), 0o644)
}

// The targets of several gateways.
const (
	targetAddUp = 0.95 // of the throughput of one gateway, times their number
	targetCPU   = 1.05 // of the CPU time per GB of one gateway
	targetShare = 0.32 // of 1,000 flows, of the busiest of 4 gateways
)

// targets returns the targets that the run measured.
func (r *throughputRun) targets() (all []target) {
	for _, s := range r.summaries() {
		if s.gateways == 1 {
			continue
		}
		what := fmt.Sprintf("%d gateways, %d bytes: ", s.gateways, s.size)
		share := targetAddUp * float64(s.gateways)
		all = append(all,
			target{what + "throughput", fmt.Sprintf("≥ %.2f × one", share), fmt.Sprintf("%.2f", s.rateToOne), s.rateToOne >= share},
			target{what + "CPU time per GB, each with the same load", fmt.Sprintf("≤ %.2f × one", targetCPU), fmt.Sprintf("%.2f", s.cpuToOne), s.cpuToOne <= targetCPU})
	}
	for _, s := range r.Spread {
		share := s.busiest()
		all = append(all, target{fmt.Sprintf("%d flows from %s: the busiest of %d gateways (%s)", s.Flows, s.From, len(s.Through), s.cluster()), "≤ 32 %", fmt.Sprintf("%.0f %%", 100*share), share <= targetShare})
	}
	return all
}

// page returns the page of the run in Markdown.
func (r *throughputRun) page() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Several gateways

## What was measured

| | |
|---|---|
| date | %s |
| machine | %s |
| command | `+"`make throughput`"+` |

`+"`make throughput`"+` writes this page and all results ([throughput.json](throughput.json)); do not edit them.

Two clusters with overlapping pod CIDRs are joined, as for [failover](failover.md). Their API servers are away, so that they use no CPU time. All programs share the cores of the machine.

`, r.Time.Format("2006-01-02"), r.Machine)
	writeTargets(&b, r.targets())
	if len(r.Loaded) > 0 {
		fmt.Fprintf(&b, `
## Throughput adds up

%d UDP flows from one cluster to the other, whose ways nodes and gateways choose. A quarter of them at most is used through each gateway, and as much is sent through each. It is measured in two ways:

- **Same load**, without a limit: %.0f datagrams per second for each gateway. CPU time per GB is that of all gateways per 10⁹ bytes of payload.
- **Limited**: each gateway is held to %.2g of a CPU by a control group, so that the gateways are the bound and not the other programs of the two clusters, and more is offered than they carry. Busy is the part of their CPU time that all gateways used, idle what the machine had left: little of either means that something else was the bound. What a gateway does at rest is part of its limit.

At the same time the same is measured of one gateway of each of two other clusters with as many nodes (**× one**). They have nothing in common but the machine, whose caches and memory all programs share: how much a gateway does in a second of CPU time depends on how many others run, and on when, and differs by a third within seconds. One gateway beside one is the same twice: how far that row is from 1 is the error. All figures are medians: of %d rounds with the same load, of %d limited ones. With a probability of 95 %%, the median of many more rounds is between the two values given.

`, r.Flows, r.Load, r.CPUs, r.rounds(r.Loaded), r.rounds(r.Limited))
		r.writeTable(&b)
	}
	r.writeSpread(&b)
	return b.String()
}

// rounds returns how many samples there are of each size and number of gateways.
func (r *throughputRun) rounds(samples []throughputSample) int {
	return len(samples) / max(1, len(r.summaries()))
}

// throughputSummary is the medians of samples with equal conditions, and of their ratios.
type throughputSummary struct {
	gateways, size int
	delivered      float64 // part of what was offered
	cpuPerGB       float64
	cpuToOne       float64    // CPU time per GB
	rate           float64    // with the limit, as what follows
	rateToOne      float64    // at the same time
	interval       [2]float64 // of rateToOne
	busy, idle     float64
}

// summaries returns the summaries, by size and number of gateways.
func (r *throughputRun) summaries() (all []throughputSummary) {
	for _, s := range r.Loaded {
		if !slices.ContainsFunc(all, func(a throughputSummary) bool { return a.gateways == s.Gateways && a.size == s.Size }) {
			all = append(all, throughputSummary{gateways: s.Gateways, size: s.Size})
		}
	}
	slices.SortFunc(all, func(a, b throughputSummary) int { return cmp.Or(a.size-b.size, a.gateways-b.gateways) })
	for i := range all {
		s := &all[i]
		values := func(samples []throughputSample, of func(throughputSample) float64) (all []float64) {
			for _, sample := range samples {
				if sample.Gateways == s.gateways && sample.Size == s.size {
					all = append(all, of(sample))
				}
			}
			return all
		}
		median := func(samples []throughputSample, of func(throughputSample) float64) float64 {
			all := values(samples, of)
			if len(all) == 0 {
				return 0
			}
			return quantile(all, 0.5)
		}
		s.delivered = median(r.Loaded, func(m throughputSample) float64 { return m.Some.Rate / m.Some.Offered })
		s.cpuPerGB = median(r.Loaded, func(m throughputSample) float64 { return m.Some.cpuPerGB(s.size) })
		s.cpuToOne = median(r.Loaded, func(m throughputSample) float64 { return m.Some.cpuPerGB(s.size) / m.One.cpuPerGB(s.size) })
		s.rate = median(r.Limited, func(m throughputSample) float64 { return m.Some.Rate })
		toOne := func(m throughputSample) float64 { return m.Some.Rate / m.One.Rate }
		s.rateToOne, s.interval = median(r.Limited, toOne), medianInterval(values(r.Limited, toOne))
		s.busy = median(r.Limited, func(m throughputSample) float64 { return m.Some.CPU / (r.CPUs * float64(2*s.gateways)) })
		s.idle = median(r.Limited, func(m throughputSample) float64 { return m.Some.Idle })
	}
	return all
}

// medianInterval returns the two values between which the median of all possible values is with a probability of about 95 %,
// by their order alone (binomial distribution).
func medianInterval(values []float64) (interval [2]float64) {
	n := len(values)
	if n == 0 {
		return interval
	}
	sorted := slices.Sorted(slices.Values(values))
	outside := max(int((float64(n)-1.96*math.Sqrt(float64(n)))/2), 1) // first to last of those within
	return [2]float64{sorted[outside-1], sorted[n-outside]}
}

// writeTable writes the summaries.
func (r *throughputRun) writeTable(b *strings.Builder) {
	b.WriteString(`| bytes | gateways of each cluster | same load: delivered | CPU-s per GB | × one | limited: datagrams per second | × one | 95 % | busy | machine idle |
|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|
`)
	for _, s := range r.summaries() {
		fmt.Fprintf(b, "| %d | %d | %.1f %% | %.2f | %.2f | %.0f | %.2f | %.2f to %.2f | %.0f %% | %.0f %% |\n",
			s.size, s.gateways, 100*s.delivered, s.cpuPerGB, s.cpuToOne, s.rate, s.rateToOne, s.interval[0], s.interval[1], 100*s.busy, 100*s.idle)
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

func (r *throughputRun) writeSpread(b *strings.Builder) {
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
