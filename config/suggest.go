package config

import "strings"

// suggest returns the remedy for an unknown field: the known field with the most similar name, or all of them.
func suggest(fields []field, name string) string {
	best, distance := "", 3 // at most two typing errors
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

// slips returns the Levenshtein distance of two strings, or limit if their lengths differ by at least that much.
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
