package verify

import (
	"fmt"
	"strings"
	"time"
)

// Schema names the form of a Report. A field may come; none changes or goes without
// another number.
const Schema = "strait.dev/verify/1"

// Report is what was tried and what became of it.
type Report struct {
	Schema   string         `json:"schema"`
	Passed   bool           `json:"passed"` // nothing failed
	Clusters []ClusterShape `json:"clusters"`
	MTU      int            `json:"mtu,omitempty"` // of the peering: the largest IP packet that crosses, bytes
	Seconds  float64        `json:"seconds"`
	Counts   Counts         `json:"counts"`
	Checks   []Check        `json:"checks"`
	Kept     []string       `json:"kept,omitempty"` // agents that stay, as "cluster namespace/pod address"
}

// ClusterShape is where the agents of a cluster ran.
type ClusterShape struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"` // for people, like "context a"
	GatewayNode string `json:"gatewayNode,omitempty"`
	OtherNode   string `json:"otherNode,omitempty"`
}

// Counts are how many checks ended how.
type Counts struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// Outcome is how a check ended.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
)

// Group is what a check is about.
type Group string

// The groups, as they are printed.
const (
	OfPeering    Group = "peering"    // what the objects say
	OfMatrix     Group = "matrix"     // from each kind of place to each other
	OfFlow       Group = "flow"       // a connection for as long as the run lasts
	OfEncryption Group = "encryption" // what passes on the underlay
)

// Check is one thing that was tried.
type Check struct {
	Group       Group   `json:"group"`
	From        string  `json:"from,omitempty"` // cluster
	To          string  `json:"to,omitempty"`   // cluster
	Family      string  `json:"family,omitempty"`
	Source      string  `json:"source,omitempty"`      // like "pod @gateway"
	Destination string  `json:"destination,omitempty"` // like "Service @other"
	What        string  `json:"what"`                  // like "udp mtu"
	Outcome     Outcome `json:"outcome"`
	Detail      string  `json:"detail,omitempty"` // what was seen, or why it was left out
	Cause       string  `json:"cause,omitempty"`  // probable, of a failure
	Remedy      string  `json:"remedy,omitempty"`
	RTT         float64 `json:"rttSeconds,omitempty"`
	Bytes       int64   `json:"bytes,omitempty"` // that came back
}

// Name names a check among all.
func (c Check) Name() string {
	var parts []string
	if c.From != "" && c.To != "" {
		parts = append(parts, c.From+" to "+c.To)
	} else if c.From != "" {
		parts = append(parts, c.From)
	}
	if c.Family != "" {
		parts = append(parts, c.Family)
	}
	if c.Source != "" {
		parts = append(parts, fmt.Sprintf("%s to %s", c.Source, c.Destination))
	}
	return strings.Join(append(parts, c.What), ", ")
}

// finish fills in what follows from the checks, of a run that began at a time. A nil report
// is of a run that came to nothing.
func (r *Report) finish(began time.Time) {
	if r == nil {
		return
	}
	r.Schema, r.Seconds, r.Counts = Schema, time.Since(began).Seconds(), Counts{}
	for _, c := range r.Checks {
		switch c.Outcome {
		case Passed:
			r.Counts.Passed++
		case Failed:
			r.Counts.Failed++
		case Skipped:
			r.Counts.Skipped++
		}
	}
	r.Passed = r.Counts.Failed == 0
}

// of are the checks of a group.
func (r *Report) of(g Group) (all []Check) {
	for _, c := range r.Checks {
		if c.Group == g {
			all = append(all, c)
		}
	}
	return all
}
