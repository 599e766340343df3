package demo

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"strait.dev/strait/internal/columns"
	"strait.dev/strait/internal/plan"
)

// Text is a Watcher that prints text. It ignores write errors, which must not fail a run.
type Text struct {
	To io.Writer
	// Terminal is where To writes to, for control sequences: a line for the running step is
	// printed, which its result replaces. Nil: it is no terminal.
	Terminal io.Writer
}

// clearLine erases the current line (ECMA-48, EL).
const clearLine = "\r\x1b[K"

// Introduce prints the topology and the addresses.
func (t *Text) Introduce(clusters []Cluster) {
	a, b := clusters[0], clusters[1]
	cidrs := strings.Join(a.PodCIDRs, " and ")
	fmt.Fprintf(t.To, "Two clusters in this process, connected by two gateways. Both use the pod CIDRs %s.\n\n", cidrs)
	fmt.Fprint(t.To, "  pod a -- node a == Geneve == gateway a == WireGuard == gateway b == Geneve == node b -- pod b\n\n")
	for _, c := range [][2]Cluster{{a, b}, {b, a}} {
		fmt.Fprintf(t.To, "  pod %s has address %s; cluster %s maps the pods of cluster %s to %s\n", c[0].Name, c[0].Pod[plan.V4],
			c[0].Name, c[1].Name, strings.Join(c[0].RemoteSeen, " and "))
	}
	fmt.Fprintln(t.To)
}

// margin is the width of the column with the step names.
const margin = 18

// Begin implements Watcher.
func (t *Text) Begin(name, goal string) {
	if t.Terminal != nil {
		fmt.Fprintf(t.To, "%-*s... %s", margin, name, goal)
	}
}

// End implements Watcher.
func (t *Text) End(s Step) {
	if t.Terminal != nil {
		fmt.Fprint(t.Terminal, clearLine)
	}
	switch s.Result {
	case Passed:
		fmt.Fprintf(t.To, "%-*s%s (%v)\n", margin, s.Name, s.Summary, s.Figure)
	case Failed:
		fmt.Fprintf(t.To, "%-*sFAILED\n%*sexpected: %s\n%*sgot:      %s\n", margin, s.Name, margin, "", s.Expected, margin, "", s.Seen)
	}
	rows := pathRows(s.Path)
	if rows == nil {
		rows = hopRows(s.Hops)
	}
	if rows != nil {
		fmt.Fprintln(t.To)
		t.table(strings.Repeat(" ", margin), rows)
		fmt.Fprintln(t.To)
	}
}

func pathRows(all []Observation) [][]string {
	if len(all) == 0 {
		return nil
	}
	rows := [][]string{{"PACKET", "AT", "STAGE", "SOURCE", "DESTINATION"}}
	for _, s := range all {
		rows = append(rows, []string{s.Packet, "gateway " + s.Gateway, s.Stage, s.Source, s.Destination})
	}
	return rows
}

func hopRows(all []Hop) [][]string {
	if len(all) == 0 {
		return nil
	}
	rows := [][]string{{"HOP", "ADDRESS", "NAME", "ROUND TRIP"}}
	for _, h := range all {
		rows = append(rows, []string{strconv.Itoa(h.TTL), h.Address, h.Name, seconds(h.Seconds)})
	}
	return rows
}

// Conclude prints the table of all steps.
func (t *Text) Conclude(r *Report) {
	rows := [][]string{{"STEP", "RESULT", "FIGURE"}}
	for _, s := range r.Steps {
		rows = append(rows, []string{s.Name, s.Result, s.Figure.String()})
	}
	fmt.Fprintln(t.To)
	t.table("", rows)
	if r.Passed {
		fmt.Fprintf(t.To, "\nAll %d steps passed in %s.\n", len(r.Steps), seconds(r.Seconds))
	}
}

// ShowEndpoints prints the URLs of the running demo.
func (t *Text) ShowEndpoints(endpoints []Endpoint) {
	fmt.Fprint(t.To, "\nBoth clusters keep running until Ctrl-C or SIGTERM. Open:\n\n")
	var rows [][]string
	for _, d := range endpoints {
		rows = append(rows, []string{d.URL, d.Name})
	}
	t.table("  ", rows)
}

func (t *Text) table(indent string, rows [][]string) {
	var table columns.Table
	for _, r := range rows {
		cells := []any{indent + r[0]}
		for _, cell := range r[1:] {
			cells = append(cells, cell)
		}
		table.Row(cells...)
	}
	_, _ = table.WriteTo(t.To)
}

// String formats the figure for text output; nil is "-".
func (f *Figure) String() string {
	if f == nil {
		return "-"
	}
	switch f.Unit {
	case "s":
		return f.Name + " " + seconds(f.Value)
	case "B/s":
		return fmt.Sprintf("%s %.0f MB/s", f.Name, f.Value/1e6)
	case "B":
		return fmt.Sprintf("%s %.0f bytes", f.Name, f.Value)
	}
	return fmt.Sprintf("%s %.0f %s", f.Name, f.Value, f.Unit)
}

func seconds(s float64) string {
	switch {
	case s >= 1:
		return fmt.Sprintf("%.2f s", s)
	case s >= 0.01:
		return fmt.Sprintf("%.0f ms", s*1e3)
	}
	return fmt.Sprintf("%.2f ms", s*1e3)
}
