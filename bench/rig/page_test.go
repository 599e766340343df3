package rig

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"strait.dev/strait/bench/result"
)

func TestTheReportShowsThePlotsThatItsRunHas(t *testing.T) {
	t.Parallel()
	stream := tcpName(1, forth)
	run := runOf(t, map[figure]float64{
		{stream, NoGRO, nameP, unitThroughput}: 0.7e9, {stream, NoGRO, nameStrait, unitThroughput}: 2.1e9,
		{stream, NoGRO, nameP, unitCPU}: 20, {stream, NoGRO, nameStrait, unitCPU}: 6,
	})
	run.Machine.Strait = "v1.2.3-4-gabcdef0"
	name := filepath.Join(t.TempDir(), "performance.md")
	if err := WriteReport(name, run); err != nil {
		t.Fatal(err)
	}
	page := read(t, name)
	for _, want := range []string{
		"2.10 Gbit/s", "(3.0 ×)", "takes 6.00 CPU-s/GB", "| commit | v1.2.3-4-gabcdef0 |", "**The peer (P)**", "no figure against WireGuard in the kernel",
		"](images/performance-throughput.svg)", "](images/performance-cpu.svg)",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "performance-memory.svg") || strings.Contains(page, "round trip takes") {
		t.Error("the page shows what the run did not measure")
	}
	plot := read(t, filepath.Join(filepath.Dir(name), images, "performance-throughput.svg"))
	for _, want := range []string{"nogro · peer", "nogro · strait", "700 Mbit/s", "2.10 Gbit/s", "prefers-color-scheme: dark", `class="own"`} {
		if !strings.Contains(plot, want) {
			t.Errorf("the plot lacks %q", want)
		}
	}
	for _, not := range []string{"wire · ", "href", "url(", "@import"} {
		if strings.Contains(plot, not) {
			t.Errorf("the plot has %q", not)
		}
	}
	d := xml.NewDecoder(strings.NewReader(plot))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// The page in docs is what `make performance` makes of the run beside it.
func TestThePageInDocsIsCurrent(t *testing.T) {
	t.Parallel()
	const docs = "../../docs/evidence"
	run, err := result.ReadFile(filepath.Join(docs, "performance.json"))
	if err != nil {
		t.Fatal(err)
	}
	fresh := t.TempDir()
	if err := WriteReport(filepath.Join(fresh, "performance.md"), run); err != nil {
		t.Fatal(err)
	}
	made, err := filepath.Glob(filepath.Join(fresh, images, "*.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(made, filepath.Join(fresh, "performance.md")) {
		name, err := filepath.Rel(fresh, path)
		if err != nil {
			t.Fatal(err)
		}
		if have, err := os.ReadFile(filepath.Join(docs, name)); err != nil || !bytes.Equal(have, []byte(read(t, path))) {
			t.Errorf("docs/evidence/%s is not made from docs/evidence/performance.json; run `make performance` (%v)", name, err)
		}
	}
}

// A new run changes figures that other pages quote: they name its commit.
func TestPagesQuoteFiguresOfTheRunInDocs(t *testing.T) {
	t.Parallel()
	measured := regexp.MustCompile(`(?m)^\| commit \| \S*?([0-9a-f]{7,}) \|$`).FindStringSubmatch(read(t, "../../docs/evidence/performance.md"))
	if measured == nil {
		t.Fatal("docs/evidence/performance.md names no commit")
	}
	quoted := regexp.MustCompile(`commit ([0-9a-f]{7,})\b`)
	for _, page := range []string{"README.md", "docs/how-to/sizing.md", "docs/explanation/faq.md"} {
		for _, commit := range quoted.FindAllStringSubmatch(read(t, "../../"+page), -1) {
			if commit[1] != measured[1] {
				t.Errorf("%s quotes figures of commit %s; docs/evidence/performance.md has those of %s", page, commit[1], measured[1])
			}
		}
	}
}

// Figures of the run in pages that are not made from it.
func TestPagesHaveTheFiguresOfTheRunInDocs(t *testing.T) {
	t.Parallel()
	run, err := result.ReadFile("../../docs/evidence/performance.json")
	if err != nil {
		t.Fatal(err)
	}
	all := medians(run)
	median := func(test, subject, mode, metric string, unit float64) any {
		t.Helper()
		m, ok := all(figure{test, Mode(mode), subject, metric})
		if !ok {
			t.Fatalf("the run has no %s of %s in %s", metric, subject, test)
		}
		return m / unit
	}
	const stream, readme, sizing, gbit, mbit, mib = "tcp/streams=1/direction=a-to-b", "README.md", "docs/how-to/sizing.md", 1e9, 1e6, 1 << 20
	large := median("memory/peak", "strait-5000-nodes", "", "peak-B", mib)
	for _, c := range []struct {
		page, text string
		figures    []any
	}{
		{readme, "| one TCP stream | %.2f Gbit/s | %.0f Mbit/s |", []any{median(stream, "strait", "nogro", "bit/s", gbit), median(stream, "P", "nogro", "bit/s", mbit)}},
		{readme, "| CPU time of the whole path per GB, both ends | %.1f s | %.1f s |", []any{median(stream, "strait", "nogro", "CPU-s/GB", 1), median(stream, "P", "nogro", "CPU-s/GB", 1)}},
		{readme, "| memory of an idle gateway with 5,000 nodes and 100,000 routes | %.1f MiB |", []any{median("memory/idle", "strait-5000-nodes", "nogro", "resident-B", mib)}},
		{sizing, "| one node, idle | %.0f MiB |", []any{median("memory/idle", "strait", "nogro", "resident-B", mib)}},
		{sizing, "| 5,000 nodes with 100,000 routes, idle | %.0f MiB |", []any{median("memory/idle", "strait-5000-nodes", "nogro", "resident-B", mib)}},
		{sizing, "| the same at its highest, while the configuration is read again under load | %.0f MiB |", []any{large}},
		{sizing, "| 1,000,000 masqueraded flows | %.0f + 140,", []any{large}},
		{sizing, "| 4,194,304 masqueraded flows | %.0f + 560,", []any{large}},
	} {
		if want := fmt.Sprintf(c.text, c.figures...); !strings.Contains(read(t, "../../"+c.page), want) {
			t.Errorf("%s lacks %q, which docs/evidence/performance.json says", c.page, want)
		}
	}
}

// What several gateways carry is measured by another command, which writes its own page.
func TestSizingHasTheFiguresOfSeveralGateways(t *testing.T) {
	t.Parallel()
	var times []string
	for _, found := range regexp.MustCompile(`(?m)^\| [234] gateways, 64 bytes: throughput \| [^|]* \| ([0-9.]+) \|`).FindAllStringSubmatch(read(t, "../../docs/evidence/throughput.md"), -1) {
		times = append(times, found[1])
	}
	if want := "| two, three, four gateways on each side | " + strings.Join(times, ", ") + " times as much as one |"; !strings.Contains(read(t, "../../docs/how-to/sizing.md"), want) {
		t.Errorf("docs/how-to/sizing.md lacks %q, which docs/evidence/throughput.md says", want)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
