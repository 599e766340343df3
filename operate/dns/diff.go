package dns

import (
	"fmt"
	"strings"
)

// contextLines is the number of unchanged lines that a diff has around changed ones.
const contextLines = 3

// diff returns the difference of two texts as a unified diff, empty if they are equal.
func diff(name, before, after string) string {
	a, b := lines(before), lines(after)
	type row struct {
		mark byte
		text string
	}
	// The table of the longest common subsequences of all suffixes.
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var rows []row
	for i, j := 0, 0; i < len(a) || j < len(b); {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			rows = append(rows, row{' ', a[i]})
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			rows = append(rows, row{'-', a[i]})
			i++
		default:
			rows = append(rows, row{'+', b[j]})
			j++
		}
	}
	changed := func(from, to int) bool {
		for _, r := range rows[max(0, from):min(len(rows), to)] {
			if r.mark != ' ' {
				return true
			}
		}
		return false
	}
	if !changed(0, len(rows)) {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", name, name)
	inHunk := false
	oldLine, newLine := 1, 1
	for i, r := range rows {
		shown := changed(i-contextLines, i+contextLines+1)
		if shown && !inHunk {
			fmt.Fprintf(&out, "@@ -%d +%d @@\n", oldLine, newLine)
		}
		if inHunk = shown; shown {
			fmt.Fprintf(&out, "%c%s\n", r.mark, strings.TrimSuffix(r.text, "\n"))
		}
		if r.mark != '+' {
			oldLine++
		}
		if r.mark != '-' {
			newLine++
		}
	}
	return out.String()
}

func lines(text string) []string {
	all := strings.SplitAfter(text, "\n")
	if all[len(all)-1] == "" {
		all = all[:len(all)-1]
	}
	return all
}
