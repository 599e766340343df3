package main

import (
	"fmt"
	"io"
)

// print writes the table with results, and reports whether every row is held.
func (l *list) print(out io.Writer, results results) bool {
	counts := make(map[string]int)
	for _, s := range l.sections {
		fmt.Fprintf(out, "== %s\n", s.title)
		for _, r := range s.rows {
			state, remark := l.status(r, results)
			counts[state]++
			if remark != "" {
				remark = " (" + remark + ")"
			}
			fmt.Fprintf(out, "%-26s %-8s %s%s\n", r.name(), state, r.clause, remark)
			for _, t := range l.tests[r.key()] {
				fmt.Fprintf(out, "%35s %s\n", "", t)
			}
		}
	}
	for _, f := range l.faults {
		fmt.Fprintln(out, f)
	}
	total := 0
	for _, n := range counts {
		total += n
	}
	fmt.Fprintf(out, "%d rows: %d pass, %d not run, %d waived, %d skipped, %d missing, %d failed\n", total,
		counts[passed], counts[notRun], counts[waived], counts[skipped], counts[missing], counts[failed])
	return counts[missing] == 0 && counts[failed] == 0 && len(l.faults) == 0
}
