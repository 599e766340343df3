package operator

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// ServicesTable writes a report as text. A wide table has more columns.
func ServicesTable(w io.Writer, r *ServicesReport, wide bool) error {
	var b strings.Builder
	for i := range r.Clusters {
		if i > 0 {
			b.WriteByte('\n')
		}
		r.Clusters[i].table(&b, wide)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// table writes the Services of one cluster. Writing to a strings.Builder cannot fail.
func (c *ClusterServices) table(b *strings.Builder, wide bool) {
	fmt.Fprintf(b, "cluster %s\n\n", c.ClusterID)
	columns := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	if len(c.Services) == 0 {
		b.WriteString("No Services are exported or imported; strait export exports one.\n")
	} else {
		head, row := "SERVICE\tTYPE\tPORTS\tENDPOINTS\tSTATE\n", "%s/%s\t%s\t%s\t%s\t%s%s\n"
		if wide {
			head, row = "SERVICE\tTYPE\tPORTS\tENDPOINTS\tIP\tDNS-NAME\tSTATE\n", "%s/%s\t%s\t%s\t%s\t%s\t%s\t%s%s\n"
		}
		fmt.Fprint(columns, head)
		for _, s := range c.Services {
			values := []any{s.Namespace, s.Name, orDash(s.Type), orDash(strings.Join(s.Ports, ",")), s.endpoints()}
			if wide {
				values = append(values, orDash(strings.Join(s.IPs, ",")), s.DNSName)
			}
			fmt.Fprintf(columns, row, append(values, s.State, after(": ", strings.Join(s.Messages, "; ")))...)
		}
		_ = columns.Flush()
	}
	if len(c.Peerings) == 0 {
		return
	}
	head := "\nPEERING\tCLUSTER\tIMPORTED\tREFUSED\tSTATE\n"
	if wide {
		head = "\nPEERING\tCLUSTER\tIMPORTED\tREFUSED\tRECEIVER\tFROM\tSTATE\n"
	}
	fmt.Fprint(columns, head)
	for _, p := range c.Peerings {
		fmt.Fprintf(columns, "%s\t%s\t%d\t%d\t", p.Peering, orDash(string(p.ClusterID)), p.Imported, p.Refused)
		if wide {
			fmt.Fprintf(columns, "%s\t%s\t", orDash(p.Receiver), orDash(p.From))
		}
		fmt.Fprintln(columns, p.state())
	}
	_ = columns.Flush()
}

// endpoints returns the ready and all endpoints of each exporting cluster.
func (s *ClusterSetService) endpoints() string {
	var all []string
	for _, c := range s.Clusters {
		text := fmt.Sprintf("%s %d/%d", c.ClusterID, c.Ready, c.Endpoints)
		switch {
		case c.Gateways != nil && *c.Gateways == 1:
			text += " through 1 gateway"
		case c.Gateways != nil:
			text += fmt.Sprintf(" through %d gateways", *c.Gateways)
		}
		all = append(all, text)
	}
	return orDash(strings.Join(all, ", "))
}

func (p *PeeringServices) state() string {
	if p.Message != "" {
		return p.Message
	}
	return "in sync"
}

// after returns a text with a prefix, empty if the text is.
func after(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
