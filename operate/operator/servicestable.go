package operator

import (
	"fmt"
	"io"
	"strings"

	"strait.dev/strait/internal/columns"
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
	if len(c.Services) == 0 {
		b.WriteString("No Services are exported or imported; strait export exports one.\n")
	} else {
		var table columns.Table
		head := []any{"SERVICE", "TYPE", "PORTS", "ENDPOINTS"}
		if wide {
			head = append(head, "IP", "DNS-NAME")
		}
		table.Row(append(head, "STATE")...)
		for _, s := range c.Services {
			row := []any{s.Namespace + "/" + s.Name, s.Type, strings.Join(s.Ports, ","), s.endpoints()}
			if wide {
				row = append(row, strings.Join(s.IPs, ","), s.DNSName)
			}
			table.Row(append(row, string(s.State)+after(": ", strings.Join(s.Messages, "; ")))...)
		}
		_, _ = table.WriteTo(b)
	}
	if len(c.Peerings) == 0 {
		return
	}
	var peerings section
	head := []any{"PEERING", "CLUSTER", "IMPORTED", "REFUSED"}
	if wide {
		head = append(head, "RECEIVER", "FROM")
	}
	peerings.Row(append(head, "STATE")...)
	for _, p := range c.Peerings {
		row := []any{p.Peering, p.ClusterID, p.Imported, p.Refused}
		if wide {
			row = append(row, p.Receiver, p.From)
		}
		peerings.Row(append(row, p.state())...)
	}
	peerings.writeAfterLine(b)
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
	return strings.Join(all, ", ")
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
