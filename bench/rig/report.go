package rig

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"strait.dev/strait/bench/report"
	"strait.dev/strait/bench/result"
	"strait.dev/strait/internal/columns"
)

// DemandTable writes the measured targets as text, and counts the others.
func DemandTable(to io.Writer, run *result.Run) error {
	var table columns.Table
	table.Row("MEASURE", "TARGET", "MEASURED", columns.Blank)
	all, open := Verdicts(run), 0
	for _, v := range all {
		if v.Met == notMeasured {
			open++
			continue
		}
		table.Row(v.Measure, v.Demand, v.Measured, v.Met)
	}
	if open > 0 {
		table.Row(fmt.Sprintf("%d of %d targets were not measured", open, len(all)))
	}
	_, err := table.WriteTo(to)
	return err
}

// images is the folder of the plots, beside the page.
const images = "images"

// WriteReport writes a run as a page of the documentation, in Markdown, to the file name,
// and the page's plots as SVG to the folder images beside it. It is all that depends on
// the run, so that a page is made again from the run's JSON.
func WriteReport(name string, run *result.Run) error {
	folder := filepath.Join(filepath.Dir(name), images)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, p := range plots() {
		var svg bytes.Buffer
		drawn, err := report.SVG(&svg, run, p.figure)
		if err != nil {
			return err
		}
		if !drawn {
			continue
		}
		if err := os.WriteFile(filepath.Join(folder, p.file), svg.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return result.WriteFile(name, func(w io.Writer) error { return Report(w, run) })
}

// Report writes the page of a run, which refers to plots in the folder images.
func Report(to io.Writer, run *result.Run) error {
	var b strings.Builder
	all := medians(run)
	b.WriteString("# Performance\n\n")
	writeHeadline(&b, all)
	for _, p := range plots() {
		if drawn, err := report.SVG(io.Discard, run, p.figure); err != nil {
			return err
		} else if drawn {
			fmt.Fprintf(&b, "![%s](%s/%s)\n\n", p.figure.Title, images, p.file)
		}
	}
	fmt.Fprintf(&b, `A bar is the median of all repetitions, a dot one repetition, the line joins the lowest to the highest.

## What was measured

| | |
|---|---|
| commit | %s |
| date | %s |
| machine | %s |
| command | `+"`%s`"+` |

This page and its plots are generated from the JSON of that run by `+"`make performance`"+`; do not edit them. `+"`make bench-peer`"+` measures again and replaces the JSON.

**The peer (P)** is a gateway assembled from standard parts: the kernel's overlay device, prefix NAT by nftables, and wireguard-go on a kernel TUN device, with the privileges that these need. **P1** is the peer limited to one core (GOMAXPROCS=1). **strait** runs with default settings as an ordinary user without capabilities. %s

All subjects share the cores of one machine, so ratios are more reliable than absolute figures. "CPU per GB" is CPU time of the whole path (both ends, nodes, gateways, and the kernel's work for them) per 10⁹ bytes of payload. Repetitions of all subjects are interleaved, each with new gateways.

| mode | meaning |
|---|---|
| nogro | no segments are coalesced before the gateways: gateways in a pod network, the usual case |
| wire | the kernel does GRO at every receiver |
| same-host | node and gateway share a machine |

## Targets

| measure | target | measured | |
|---|---|---|---|
`, run.Machine.Strait, run.Time.Format("2006-01-02"), run.Machine, run.Command, kernelWireGuard(run))
	for _, v := range Verdicts(run) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", v.Measure, v.Demand, v.Measured, v.Met)
	}
	b.WriteString("\nWhere several tests belong to a row, the worst counts. Where the time goes and which changes were tried: [design/speed.md](../design/speed.md).\n")
	writeFloors(&b, all)
	b.WriteString(`
## All figures

The spread is the distance from the lowest to the highest repetition, as a part of the median.

<details><summary>Table</summary>

| test | mode | subject | median | spread | n |
|---|---|---|---|---|---|
`)
	for _, s := range result.Medians(run.Samples) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %.0f %% | %d |\n", s.Test, s.Mode, s.Subject, withUnit(s), 100*s.Spread(), s.N)
	}
	b.WriteString("\n</details>\n")
	_, err := io.WriteString(to, b.String())
	return err
}

// writeHeadline summarizes the run against the peer, in the mode of gateways in a pod
// network. It writes nothing about what was not measured.
func writeHeadline(b *strings.Builder, all figures) {
	for _, h := range []struct {
		text string // with both medians and their ratio
		of   figure // strait's
	}{
		{"One TCP stream through Strait carries %s; through the peer, a gateway of kernel devices and wireguard-go, it carries %s (%.1f ×).", figure{tcpName(1, forth), NoGRO, nameStrait, unitThroughput}},
		{"The whole path takes %s of CPU time; with the peer it takes %s (%.2f ×).", figure{tcpName(1, forth), NoGRO, nameStrait, unitCPU}},
		{"The median TCP round trip takes %s; through the peer it takes %s (%.2f ×).", figure{testRoundTrip, NoGRO, nameStrait, unitP50}},
	} {
		peer := h.of
		peer.subject = nameP
		strait, measured := all(h.of)
		other, compared := all(peer)
		if measured && compared && other > 0 {
			fmt.Fprintf(b, h.text+"\n", result.Format(strait, h.of.unit), result.Format(other, h.of.unit), strait/other)
		}
	}
	b.WriteString("\n")
}

// kernelWireGuard states whether the run has figures of WireGuard in the kernel.
func kernelWireGuard(run *result.Run) string {
	for _, s := range run.Samples {
		if s.Subject == nameWireGuardKernel {
			return "**kernel-wireguard** is WireGuard in the kernel alone, without overlay and NAT."
		}
	}
	return "The kernel of this machine has no WireGuard, so there is no figure against WireGuard in the kernel."
}

// withUnit formats a median with its unit; quantiles of latency keep their names.
func withUnit(s result.Summary) string {
	text := result.Format(s.Median, s.Unit)
	if name, ok := strings.CutSuffix(s.Unit, "-ns"); ok {
		text += " " + name
	}
	return text
}

// List writes all tests, whether they need --all, and the subjects of each.
func List(to io.Writer) error {
	var table columns.Table
	for _, t := range allTests(fullLengths, nil, true) {
		need := columns.Blank
		if t.optional {
			need = "--all"
		}
		table.Row(fmt.Sprintf("%s/%s", t.mode, t.name), need, strings.Join(t.subjects, " "))
	}
	_, err := table.WriteTo(to)
	return err
}

// writeFloors compares strait and P with the floor: the cost of the kernels' parts of the
// path and of the cipher by themselves. A target below the floor cannot be met on that
// machine.
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

CPU-seconds per GB of one TCP stream from A to B. The floor is the cost without any gateway: overlay and routes of the kernels, two crossings of UDP sockets with all offloads, and the cipher.

| mode | floor | | strait | |
|---|---|---|---|---|
`)
	b.WriteString(rows.String())
}
