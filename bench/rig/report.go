package rig

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"strait.dev/strait/bench/result"
)

// DemandTable writes what was demanded and what was measured, for a person. Of demands
// of which nothing was measured it says only how many there are.
func DemandTable(to io.Writer, run *result.Run) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MEASURE\tDEMAND\tMEASURED\t")
	all, open := Verdicts(run), 0
	for _, v := range all {
		if v.Met == notMeasured {
			open++
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", v.Measure, v.Demand, v.Measured, v.Met)
	}
	if open > 0 {
		fmt.Fprintf(w, "%d of %d demands were not measured\n", open, len(all))
	}
	return w.Flush()
}

// Report writes a run as a page of the documentation, in Markdown.
func Report(to io.Writer, run *result.Run) error {
	var b strings.Builder
	fmt.Fprintf(&b, `# Performance

Measured on %s by

    %s

on %s. This page is made from that run; do not edit it.

Every figure is the median of interleaved repetitions. "CPU per GB" is CPU time of the whole path (both ends, nodes, gateways, and the kernel's work for them) per 10⁹ bytes of payload. P is a gateway of today: the kernel's overlay device, prefix NAT by nftables, and wireguard-go on a kernel TUN, with the privileges that takes; P1 is P on one core (GOMAXPROCS=1). strait runs with default settings, as an ordinary user without any capability. All share the cores of one machine, so ratios say more than absolute figures.

Modes: in **nogro** nothing is coalesced in front of the gateways (gateways in the pod network, the normal case); in **wire** the kernel does GRO at every receiver; in **same-host** node and gateway share a machine.

## What is demanded

| measure | demand | measured | |
|---|---|---|---|
`, run.Time.Format("2006-01-02"), run.Command, run.Machine)
	for _, v := range Verdicts(run) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", v.Measure, v.Demand, v.Measured, v.Met)
	}
	b.WriteString("\nWhere several tests belong to a line, the worst counts. What stands behind the figures, and what was tried: [design/speed.md](../design/speed.md).\n")
	writeFloors(&b, medians(run))
	b.WriteString(`
## All figures

The spread is from the least to the greatest repetition, as a part of the median.

| test | mode | subject | median | spread | n |
|---|---|---|---|---|---|
`)
	for _, s := range result.Medians(run.Samples) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %.0f %% | %d |\n", s.Test, s.Mode, s.Subject, withUnit(s), 100*s.Spread(), s.N)
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// withUnit is a median for a person; quantiles of latency keep their names.
func withUnit(s result.Summary) string {
	text := result.Format(s.Median, s.Unit)
	if name, ok := strings.CutSuffix(s.Unit, "-ns"); ok {
		text += " " + name
	}
	return text
}

// List writes all tests, which of them need --all, and the subjects of each.
func List(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, t := range allTests(fullLengths, nil, true) {
		need := ""
		if t.further {
			need = "--all"
		}
		fmt.Fprintf(w, "%s/%s\t%s\t%s\n", t.mode, t.name, need, strings.Join(t.subjects, " "))
	}
	return w.Flush()
}

// writeFloors shows how far down a gateway could come: what the kernels' parts of the
// way and the cipher cost by themselves, beside strait and P. A demand below the floor
// cannot be met on that machine.
func writeFloors(b *strings.Builder, all figures) {
	stream := tcpName(1, forth)
	var rows strings.Builder
	for _, mode := range []Mode{NoGRO, Wire} {
		least, ok := floor(all, mode)
		strait, measured := all(figure{stream, mode, nameStrait, unitCPU})
		p, compared := all(figure{stream, mode, nameP, unitCPU})
		if ok && measured && compared && p > 0 {
			fmt.Fprintf(&rows, "| %s | %.2f | %.2f × P | %.2f | %.2f × P |\n", mode, least, least/p, strait, strait/p)
		}
	}
	if rows.Len() == 0 {
		return
	}
	b.WriteString(`
## The floor

CPU-seconds per GB of one TCP stream from A to B. The floor is what remains without any gateway: overlay and routes of the kernels, two crossings of UDP sockets with all offloads, and the cipher.

| mode | floor | | strait | |
|---|---|---|---|---|
`)
	b.WriteString(rows.String())
}
