package config

import "strings"

// suggest is the remedy for an unknown field: the known field that was probably
// meant, or all of them.
func suggest(fields []field, name string) string {
	best, distance := "", 3 // up to two slips of the finger
	for _, f := range fields {
		if n := slips(strings.ToLower(f.name), strings.ToLower(name), distance); n < distance {
			best, distance = f.name, n
		}
	}
	if best != "" {
		return "did you mean " + best + "?"
	}
	return "remove it, or use one of: " + names(fields)
}

func names(fields []field) string {
	var all []string
	for _, f := range fields {
		all = append(all, f.name)
	}
	return strings.Join(all, ", ")
}

// slips is the Levenshtein distance of two texts, or limit if their lengths
// alone differ by that much.
func slips(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1) // distances from a[:i] to each b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
