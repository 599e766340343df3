package operator

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
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
	if s.Ready {
		b.WriteString(": ready")
		if s.MTU > 0 {
			fmt.Fprintf(b, ", MTU %d", s.MTU)
		}
		b.WriteByte('\n')
	} else {
		fmt.Fprintf(b, ": not ready: %s\n", s.Missing)
	}
	columns := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, stage := range s.Stages {
		fmt.Fprintf(columns, "  %s %s\t%s\n", marks[stage.State], stage.Name, stage.Message)
	}
	_ = columns.Flush()
	if len(s.Links) > 0 {
		traffic := ""
		if wide {
			traffic = "RECEIVED\tSENT\t"
		}
		fmt.Fprintf(columns, "\n  LINK\tUP\tRTT\tHANDSHAKE\tPATH-MTU\t%sENDPOINT\n", traffic)
		for _, l := range s.Links {
			if wide {
				received, sent := l.Traffic.columns()
				traffic = received + "\t" + sent + "\t"
			}
			fmt.Fprintf(columns, "  %s to %s\t%s\t%s\t%s\t%s\t%s%s\n", l.Local, l.Remote, l.up(), l.rtt(), l.handshake(now), l.pathMTU(), traffic, orDash(string(l.Endpoint)))
		}
		_ = columns.Flush()
	}
	if slices.ContainsFunc(s.Spread, func(g GatewaySpread) bool { return g.Nodes > 0 }) {
		fmt.Fprintf(columns, "\n  GATEWAY\tIN USE BY\n")
		for _, g := range s.Spread {
			fmt.Fprintf(columns, "  %s\t%s\n", g.Gateway, g.text())
		}
		_ = columns.Flush()
	}
	if len(s.Ranges) > 0 {
		fmt.Fprintf(columns, "\n  REMOTE-CIDR\tSEEN-AS\tOF\n")
		for _, one := range s.Ranges {
			fmt.Fprintf(columns, "  %s\t%s\t%s\n", one.CIDR, one.SeenAs, one.Of)
		}
		_ = columns.Flush()
	}
	if s.Offload != nil {
		s.Offload.table(b)
	}
}

func (l Link) up() string {
	if l.Up {
		return "yes"
	}
	return "no"
}

func (l Link) rtt() string {
	if l.RTT == nil {
		return "-"
	}
	return l.RTT.Duration.String()
}

func (l Link) handshake(now time.Time) string {
	if l.LastHandshake == nil {
		return "never"
	}
	return age(now.Sub(l.LastHandshake.Time)) + " ago"
}

func (l Link) pathMTU() string {
	if l.PathMTU == 0 {
		return "-"
	}
	return fmt.Sprint(l.PathMTU)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
