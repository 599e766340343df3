package verify

import (
	"fmt"
	"strings"
	"time"
)

// Schema is the version of the JSON form of a Report. Fields may be added; changes and
// removals get a new number.
const Schema = "strait.dev/verify/1"

// Report is the result of a run.
type Report struct {
	Schema   string         `json:"schema"`
	Passed   bool           `json:"passed"` // nothing failed
	Clusters []ClusterShape `json:"clusters"`
	MTU      int            `json:"mtu,omitempty"` // of the peering: largest IP packet that is carried, bytes
	Seconds  float64        `json:"seconds"`
	Counts   Counts         `json:"counts"`
	Checks   []Check        `json:"checks"`
	Kept     []string       `json:"kept,omitempty"` // agents that are kept, as "cluster namespace/pod address"
}

// ClusterShape describes where the agents of a cluster ran.
type ClusterShape struct {
	ID          string `json:"id"`
	Name        string `json:"name,omitempty"` // for messages, like "context a"
	GatewayNode string `json:"gatewayNode,omitempty"`
	OtherNode   string `json:"otherNode,omitempty"`
}

// Counts are the numbers of checks by outcome.
type Counts struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

// Outcome is the result of a check.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "passed"
	Failed  Outcome = "failed"
	Skipped Outcome = "skipped"
)

// Group is the subject of a check.
type Group string

// The groups, as they are printed.
const (
	OfPeering    Group = "peering"    // state in the objects
	OfMatrix     Group = "matrix"     // packets from each location to each other
	OfFlow       Group = "flow"       // a connection that stays open during the run
	OfEncryption Group = "encryption" // packets on the underlay
)

// Check is one check and its result.
type Check struct {
	Group       Group   `json:"group"`
	From        string  `json:"from,omitempty"` // cluster
	To          string  `json:"to,omitempty"`   // cluster
	Family      string  `json:"family,omitempty"`
	Source      string  `json:"source,omitempty"`      // like "pod @gateway"
	Destination string  `json:"destination,omitempty"` // like "Service @other"
	What        string  `json:"what"`                  // like "udp mtu"
	Outcome     Outcome `json:"outcome"`
	Detail      string  `json:"detail,omitempty"` // observation, or why it was skipped
	Cause       string  `json:"cause,omitempty"`  // probable, of a failure
	Remedy      string  `json:"remedy,omitempty"`
	RTT         float64 `json:"rttSeconds,omitempty"`
	Bytes       int64   `json:"bytes,omitempty"` // received
}

// Name returns a unique name of a check.
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

// finish sets the fields that are derived from the checks, for a run that began at a time.
// A nil report is ignored.
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

func (r *Report) of(g Group) (all []Check) {
	for _, c := range r.Checks {
		if c.Group == g {
			all = append(all, c)
		}
	}
	return all
}
