package demo

import "strait.dev/strait/internal/plan"

// Kind is the kind of a Report in the product's API group and version.
const Kind = "DemoReport"

// Report is the result of a run as JSON. Durations are in seconds, sizes in bytes.
type Report struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Passed     bool       `json:"passed"`
	Seconds    float64    `json:"seconds"` // from the start of the clusters
	Clusters   []Cluster  `json:"clusters"`
	Steps      []Step     `json:"steps"`
	Endpoints  []Endpoint `json:"endpoints,omitempty"` // with --serve
}

// Cluster holds the addresses of a cluster. Both use the same CIDRs.
type Cluster struct {
	Name       string   `json:"name"`
	PodCIDRs   []string `json:"podCIDRs"`
	Pod        []string `json:"pod"`        // addresses of its pod
	RemoteSeen []string `json:"remoteSeen"` // CIDRs to which it maps the other cluster's pods
}

// The results of a step.
const (
	Passed  = "passed"
	Failed  = "failed"
	Skipped = "skipped" // not run
)

// Step is the result of one step.
type Step struct {
	Name     string        `json:"name"`
	Result   string        `json:"result"`
	Seconds  float64       `json:"seconds"`
	Summary  string        `json:"summary,omitempty"`
	Figure   *Figure       `json:"figure,omitempty"`
	Expected string        `json:"expected,omitempty"` // of a failed step
	Seen     string        `json:"seen,omitempty"`     // of a failed step
	Path     []Observation `json:"path,omitempty"`
	Hops     []Hop         `json:"hops,omitempty"`
}

// Figure is the measured value of a step.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"` // "s", "B", "B/s" or "hops"
}

// Observation is a packet at one stage of a gateway.
type Observation struct {
	Packet      string `json:"packet"` // "request" or "reply"
	Gateway     string `json:"gateway"`
	Stage       string `json:"stage"`
	Source      string `json:"source"`
	Destination string `json:"destination"`
}

// Hop is a router, or the destination, of a traceroute.
type Hop struct {
	TTL     int     `json:"ttl"`
	Address string  `json:"address"`
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"` // round trip
}

// Endpoint is a URL of a demo that keeps running.
type Endpoint struct {
	Name string `json:"name"`
	URL  string `json:"url"`
}

// Failures returns the names of the failed steps.
func (r *Report) Failures() []string {
	var names []string
	for _, s := range r.Steps {
		if s.Result == Failed {
			names = append(names, s.Name)
		}
	}
	return names
}

func (r *Report) add(s Step, w Watcher) {
	r.Steps = append(r.Steps, s)
	r.Passed = r.Passed && s.Result == Passed
	w.End(s)
}

// Clusters describes both clusters.
func (d *Demo) Clusters() []Cluster {
	var all []Cluster
	for _, p := range []plan.Cluster{d.a.Cluster, d.b.Cluster} {
		c := Cluster{Name: p.Name}
		for _, f := range []int{plan.V4, plan.V6} {
			c.PodCIDRs = append(c.PodCIDRs, plan.PodCIDRs[f].String())
			c.Pod = append(c.Pod, p.Address[f].String())
			c.RemoteSeen = append(c.RemoteSeen, p.RemotePods[f].String())
		}
		all = append(all, c)
	}
	return all
}
