package operator

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"strait.dev/strait/internal/columns"
)

var marks = map[State]string{Reached: "✓", Failed: "✗", Pending: "…"}

// Table writes a report as text. Ages are relative to now. A wide table has the traffic of links.
func Table(w io.Writer, r *Report, now time.Time, wide bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster %s, pods %s\n", r.ClusterID, join(r.PodCIDRs))
	if len(r.Peerings) == 0 {
		fmt.Fprintf(&b, "%s\n", noPeeringsText)
	}
	for i := range r.Peerings {
		b.WriteByte('\n')
		r.Peerings[i].table(&b, now, wide)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// table writes one peering. Writing to a strings.Builder cannot fail.
func (s *PeeringReport) table(b *strings.Builder, now time.Time, wide bool) {
	fmt.Fprintf(b, "Peering %s", s.Name)
	if s.ClusterID != "" && string(s.ClusterID) != s.Name {
		fmt.Fprintf(b, " with cluster %s", s.ClusterID)
	}
	b.WriteString(": " + s.state())
	if s.Ready && s.MTU > 0 {
		fmt.Fprintf(b, ", MTU %d", s.MTU)
	}
	b.WriteByte('\n')
	var stages columns.Table
	for _, stage := range s.Stages {
		stages.Row("  "+marks[stage.State]+" "+stage.Name, cmp.Or(stage.Message, columns.Blank))
	}
	_, _ = stages.WriteTo(b)
	if len(s.Links) > 0 {
		s.linkTable(now, wide).writeAfterLine(b)
	}
	if slices.ContainsFunc(s.Spread, func(g GatewaySpread) bool { return g.Nodes > 0 }) {
		var spread section
		spread.Row("  GATEWAY", "IN USE BY")
		for _, g := range s.Spread {
			spread.Row("  "+g.Gateway, g.text())
		}
		spread.writeAfterLine(b)
	}
	if len(s.Ranges) > 0 {
		var ranges section
		ranges.Row("  REMOTE-CIDR", "SEEN-AS", "OF")
		for _, one := range s.Ranges {
			ranges.Row("  "+string(one.CIDR), one.SeenAs, one.Of)
		}
		ranges.writeAfterLine(b)
	}
	if s.Offload != nil {
		s.Offload.table(b)
	}
}

// section is a table below an empty line.
type section struct{ columns.Table }

func (s *section) writeAfterLine(b *strings.Builder) {
	b.WriteByte('\n')
	_, _ = s.WriteTo(b)
}

func (s *PeeringReport) linkTable(now time.Time, wide bool) *section {
	table := new(section)
	row := func(cells []any, traffic [2]string, endpoint any) {
		if wide {
			cells = append(cells, traffic[0], traffic[1])
		}
		table.Row(append(cells, endpoint)...)
	}
	row([]any{"  LINK", "UP", "RTT", "HANDSHAKE", "PATH-MTU"}, [2]string{"RECEIVED", "SENT"}, "ENDPOINT")
	for _, l := range s.Links {
		row(l.cells(now), l.Traffic.columns(), l.Endpoint)
	}
	return table
}

// cells returns the columns of a link before those of its traffic.
func (l Link) cells(now time.Time) []any {
	up, rtt, handshake, pathMTU := "no", "", "never", ""
	if l.Up {
		up = "yes"
	}
	if l.RTT != nil {
		rtt = l.RTT.Duration.String()
	}
	if l.LastHandshake != nil {
		handshake = age(now.Sub(l.LastHandshake.Time)) + " ago"
	}
	if l.PathMTU != 0 {
		pathMTU = fmt.Sprint(l.PathMTU)
	}
	return []any{"  " + l.Local + " to " + l.Remote, up, rtt, handshake, pathMTU}
}
