package verify

import (
	"fmt"
	"io"
	"strings"
	"time"

	"strait.dev/strait/internal/columns"
)

// DisruptSchema is the version of the JSON form of a DisruptReport. Fields may be added;
// changes and removals get a new number.
const DisruptSchema = "strait.dev/disrupt/1"

// DisruptReport is the result of Disrupt.
type DisruptReport struct {
	Schema   string         `json:"schema"`
	Passed   bool           `json:"passed"` // no limit was exceeded
	Clusters []ClusterShape `json:"clusters"`
	Seconds  float64        `json:"seconds"`
	Rows     []DisruptRow   `json:"rows"`
}

// DisruptRow is what flows in one direction lost in a disruption.
type DisruptRow struct {
	What       string  `json:"what"`
	Cluster    string  `json:"cluster,omitempty"` // whose gateways were disrupted, for messages
	From       string  `json:"from"`              // clusters
	To         string  `json:"to"`
	Flows      int     `json:"flows"`
	Hit        int     `json:"hit"`        // flows that got no answer for 200 ms or more
	GapSeconds float64 `json:"gapSeconds"` // the longest time without an answer in a flow
	Sent       int64   `json:"sent"`       // datagrams
	Lost       int64   `json:"lost"`       // of these
	Duplicated int64   `json:"duplicated"` // answers that arrived again
	Broken     int     `json:"broken"`     // connections that ended
	Moved      int     `json:"moved"`      // flows of datagrams that another gateway of either cluster carried for a time
	Limit      string  `json:"limit"`      // what is published
	Outcome    Outcome `json:"outcome"`
}

// finish sets the fields that are derived from the rows, for a run that began at a time. A
// nil report is ignored.
func (r *DisruptReport) finish(began time.Time) {
	if r == nil {
		return
	}
	r.Schema, r.Passed, r.Seconds = DisruptSchema, true, time.Since(began).Seconds()
	for _, row := range r.Rows {
		r.Passed = r.Passed && row.Outcome != Failed
	}
}

// Table writes a report as text.
func (r *DisruptReport) Table(w io.Writer) error {
	var b strings.Builder
	var t columns.Table
	t.Row(columns.Blank, "DISRUPTION", "OF", "FROM", "TO", "FLOWS", "HIT", "GAP", "DATAGRAMS", "LOST", "DUPLICATED", "BROKEN", "MOVED", "LIMIT")
	for _, row := range r.Rows {
		gap := time.Duration(row.GapSeconds * float64(time.Second)).Round(time.Millisecond)
		t.Row(marks[row.Outcome], row.What, row.Cluster, row.From, row.To, row.Flows, row.Hit, gap, row.Sent, row.Lost, row.Duplicated, row.Broken, row.Moved, row.Limit)
	}
	_, _ = t.WriteTo(&b)
	fmt.Fprintf(&b, "\nHIT: flows that got no answer for 200 ms or more. GAP: the longest time without an answer. MOVED: UDP flows that another gateway carried for a time. %.0f s\n", r.Seconds)
	_, err := io.WriteString(w, b.String())
	return err
}
