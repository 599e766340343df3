package clusters

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"

	"strait.dev/strait/test/flows"
)

// The state of the API servers during a fault.
const (
	apiUp   = "up"
	apiAway = "away"
)

// The faults.
const (
	nameKilled    = "gateway killed"
	nameStopped   = "gateway stopped for 5 s"
	nameCutOff    = "node cut off"
	nameLinksDown = "all links of a gateway down"
	nameOneWay    = "one link cut in one direction"
)

// faultSample is what one fault cost the flows.
type faultSample struct {
	Topology string `json:"topology"` // gateways of both clusters, like 2x2
	Fault    string `json:"fault"`
	API      string `json:"apiServers"`
	Victim   string `json:"victim"`

	// The flows that used what failed: the outage of each in milliseconds by class, messages
	// of UDP flows that were lost, TCP connections that ended, and flows that were not
	// delivered again.
	Outages map[string][]float64 `json:"outages"`
	Lost    uint64               `json:"lost"`
	Ended   int                  `json:"ended"`
	Down    int                  `json:"down"`

	// The other flows. OtherOutage is the longest in milliseconds.
	Others      int     `json:"others"`
	OtherOutage float64 `json:"otherOutage"`
	OtherLost   uint64  `json:"otherLost"`
	OtherEnded  int     `json:"otherEnded"`
	OtherDown   int     `json:"otherDown"`

	// What the machine was too slow for: datagrams that the kernel dropped because gateways
	// without the fault did not read them fast enough, lost probes of links between them, and how often
	// such links were found down.
	Overflow   uint64 `json:"overflow"`
	ProbesLost uint64 `json:"probesLost"`
	LinksDown  uint64 `json:"linksDown,omitempty"`

	// The retransmission timeout of the TCP connections before the fault, in milliseconds:
	// median and 99th percentile.
	RTO   float64 `json:"rto"`
	RTO99 float64 `json:"rto99"`
}

// add adds the outcome of a flow.
func (s *faultSample) add(class string, used, down bool, o flows.Outcome) {
	ms := milliseconds([]time.Duration{o.Outage})[0]
	downs := 0
	if down {
		downs = 1
	}
	if used {
		s.Outages[class] = append(s.Outages[class], ms)
		s.Lost, s.Ended, s.Down = s.Lost+o.Lost, s.Ended+o.Ended, s.Down+downs
		return
	}
	s.Others++
	s.OtherOutage = max(s.OtherOutage, ms)
	s.OtherLost, s.OtherEnded, s.OtherDown = s.OtherLost+o.Lost, s.OtherEnded+o.Ended, s.OtherDown+downs
}

// udp and tcp return the outages of the flows of each protocol that used what failed.
func (s *faultSample) udp() []float64 { return slices.Concat(s.Outages["udp4"], s.Outages["udp6"]) }
func (s *faultSample) tcp() []float64 { return slices.Concat(s.Outages["tcp4"], s.Outages["tcp6"]) }

// String is the sample in one line.
func (s *faultSample) String() string {
	return fmt.Sprintf("%s %s (%s), API servers %s: UDP %s, TCP %s, %d lost, %d connections ended, %d flows stay down; %d other flows: at most %.0f ms, %d lost, %d ended, %d down; overflow %d, probes lost %d, links down %d; timeouts p50 %.0f p99 %.0f ms",
		s.Topology, s.Fault, s.Victim, s.API, quantiles(s.udp()), quantiles(s.tcp()), s.Lost, s.Ended, s.Down,
		s.Others, s.OtherOutage, s.OtherLost, s.OtherEnded, s.OtherDown, s.Overflow, s.ProbesLost, s.LinksDown, s.RTO, s.RTO99)
}

// milliseconds returns durations in milliseconds, with two decimals.
func milliseconds(all []time.Duration) (ms []float64) {
	for _, d := range all {
		ms = append(ms, math.Round(100*d.Seconds()*1000)/100)
	}
	return ms
}

// quantiles returns the number of values, and their median, 99th percentile and maximum.
func quantiles(ms []float64) string {
	if len(ms) == 0 {
		return "none"
	}
	return fmt.Sprintf("%d flows p50 %.0f p99 %.0f max %.0f ms", len(ms), quantile(ms, 0.5), quantile(ms, 0.99), quantile(ms, 1))
}

// quantile returns the smallest value that a part of all values does not exceed.
func quantile(values []float64, part float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	i := int(math.Ceil(part*float64(len(sorted)))) - 1
	return sorted[max(0, i)]
}

// faultSummary is the sum of all samples of a fault with equal conditions.
type faultSummary struct {
	faultSample
	faults int
}

// summaries returns a summary of each topology, fault and state of the API servers, in the
// order of the samples.
func summaries(samples []faultSample) (all []*faultSummary) {
	for _, s := range samples {
		i := slices.IndexFunc(all, func(a *faultSummary) bool {
			return a.Topology == s.Topology && a.Fault == s.Fault && a.API == s.API
		})
		if i < 0 {
			i = len(all)
			all = append(all, &faultSummary{faultSample: faultSample{Topology: s.Topology, Fault: s.Fault, API: s.API, Outages: map[string][]float64{}}})
		}
		a := all[i]
		a.faults++
		for class, ms := range s.Outages {
			a.Outages[class] = append(a.Outages[class], ms...)
		}
		a.Lost, a.Ended, a.Down = a.Lost+s.Lost, a.Ended+s.Ended, a.Down+s.Down
		a.Others, a.OtherOutage = a.Others+s.Others, max(a.OtherOutage, s.OtherOutage)
		a.OtherLost, a.OtherEnded, a.OtherDown = a.OtherLost+s.OtherLost, a.OtherEnded+s.OtherEnded, a.OtherDown+s.OtherDown
		a.Overflow, a.ProbesLost = a.Overflow+s.Overflow, a.ProbesLost+s.ProbesLost
	}
	return all
}

// faultColumns are the columns of the tables.
var faultColumns = []string{"gateways", "fault", "API servers", "faults", "UDP flows", "p50", "p99", "max", "TCP flows", "p50", "p99", "max", "ended", "others", "lost", "ended", "longest", "overflow", "probes lost"}

// cells returns a row of the tables. Times are in milliseconds.
func (s *faultSummary) cells() (row []string) {
	add := func(values ...any) {
		for _, v := range values {
			row = append(row, fmt.Sprint(v))
		}
	}
	add(s.Topology, s.Fault, s.API, s.faults)
	for _, ms := range [][]float64{s.udp(), s.tcp()} {
		if add(len(ms)); len(ms) == 0 {
			add("", "", "")
			continue
		}
		for _, part := range []float64{0.5, 0.99, 1} {
			add(fmt.Sprintf("%.0f", quantile(ms, part)))
		}
	}
	add(s.Ended, s.Others, s.OtherLost, s.OtherEnded, fmt.Sprintf("%.0f", s.OtherOutage), s.Overflow, s.ProbesLost)
	return row
}

// faultTable writes the summaries as text.
func faultTable(to io.Writer, samples []faultSample) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, column := range faultColumns {
		fmt.Fprintf(w, "%s\t", column)
	}
	fmt.Fprintln(w)
	for _, s := range summaries(samples) {
		for _, cell := range s.cells() {
			fmt.Fprintf(w, "%s\t", cell)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}
