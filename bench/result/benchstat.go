package result

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// WriteBenchstat writes a run in Go's benchmark format
// (https://go.dev/design/14313-benchmark-format), for benchstat. Every sample is
// one line: the test, its mode and subject as keys, and its metrics.
func WriteBenchstat(to io.Writer, r *Run) error {
	w := bufio.NewWriter(to)
	m := r.Machine
	for _, line := range []struct{ key, value string }{
		{"goos", m.OS}, {"goarch", m.Arch}, {"cpu", m.CPU}, {"cores", strconv.Itoa(m.Cores)},
		{"governor", m.Governor}, {"memory", strconv.FormatUint(m.Memory, 10)},
		{"kernel", m.Kernel}, {"go", m.Go}, {"strait", m.Strait},
	} {
		if line.value != "" {
			fmt.Fprintf(w, "%s: %s\n", line.key, line.value)
		}
	}
	fmt.Fprintln(w)
	for _, unit := range unitsOf(r.Samples) {
		if MoreIsBetter(unit) {
			fmt.Fprintf(w, "Unit %s better=higher\n", unit)
		}
	}
	for _, s := range r.Samples {
		// The last number of a name is read as GOMAXPROCS: it is always appended, so that
		// no other number is mistaken for it.
		fmt.Fprintf(w, "%s-%d 1", benchmarkName(s), max(m.GOMAXPROCS, 1))
		for _, unit := range slices.Sorted(maps.Keys(s.Metrics)) {
			fmt.Fprintf(w, " %s %s", strconv.FormatFloat(s.Metrics[unit], 'g', -1, 64), unit)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// benchmarkName is the name of a sample's line, without GOMAXPROCS. The format requires an
// upper case first letter.
func benchmarkName(s Sample) string {
	first, size := utf8.DecodeRuneInString(s.Test)
	var b strings.Builder
	b.WriteString("Benchmark")
	b.WriteRune(unicode.ToUpper(first))
	b.WriteString(s.Test[size:])
	if s.Mode != "" {
		b.WriteString("/mode=" + s.Mode)
	}
	if s.Subject != "" {
		b.WriteString("/subject=" + s.Subject)
	}
	return b.String()
}

func unitsOf(samples []Sample) []string {
	all := make(map[string]bool)
	for _, s := range samples {
		for unit := range s.Metrics {
			all[unit] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}
