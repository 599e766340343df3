package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxShown is how many failures of one cause are printed.
const maxShown = 5

// explain writes what failed, with causes and remedies, and what was left out and why:
// what has the same cause together, and what explains most first.
func (r *Report) explain(b *strings.Builder) {
	if place := r.commonNode(); place != "" {
		fmt.Fprintf(b, "\n%s\n", place)
	}
	order := []Group{OfPeering, OfEncryption, OfMatrix, OfFlow}
	var causes []string
	of := map[string][]Check{}
	for _, c := range r.Checks {
		if c.Outcome != Failed {
			continue
		}
		cause := cmp.Or(c.Cause, c.Detail)
		if of[cause] == nil {
			causes = append(causes, cause)
		}
		of[cause] = append(of[cause], c)
	}
	slices.SortStableFunc(causes, func(a, c string) int {
		return cmp.Compare(slices.Index(order, of[a][0].Group), slices.Index(order, of[c][0].Group))
	})
	for _, cause := range causes {
		b.WriteByte('\n')
		for i, c := range of[cause] {
			if i == maxShown {
				fmt.Fprintf(b, "✗ and %d more\n", len(of[cause])-i)
				break
			}
			fmt.Fprintf(b, "✗ %s: %s\n", c.Name(), c.Detail)
		}
		if of[cause][0].Cause != "" {
			fmt.Fprintf(b, "  probably: %s\n", cause)
		}
		if remedy := of[cause][0].Remedy; remedy != "" {
			fmt.Fprintf(b, "  what to do: %s\n", remedy)
		}
	}
	var why []string
	times := map[string]int{}
	for _, c := range r.Checks {
		if c.Outcome == Skipped && c.Group == OfMatrix && c.Source != "" {
			if times[c.Detail]++; times[c.Detail] == 1 {
				why = append(why, c.Detail)
			}
		}
	}
	if len(why) > 0 {
		b.WriteString("\nleft out:\n")
	}
	for _, text := range why {
		fmt.Fprintf(b, "– %s (%d)\n", text, times[text])
	}
}

// commonNode names the node on which all that failed begins or ends, if there is exactly one
// such, and something crossed elsewhere. Empty if there is none.
func (r *Report) commonNode() (found string) {
	type end struct{ cluster, at string }
	failed, passed := map[end]int{}, map[end]int{}
	all, well := 0, 0
	for _, c := range r.of(OfMatrix) {
		from, to := end{c.From, at(c.Source)}, end{c.To, at(c.Destination)}
		switch c.Outcome {
		case Failed:
			all++
			failed[from]++
			failed[to]++
		case Passed:
			well++
			passed[from]++
			passed[to]++
		}
	}
	for _, c := range r.Clusters {
		for _, one := range []struct{ at, node string }{{"@gateway", c.GatewayNode}, {"@other", c.OtherNode}} {
			e := end{c.ID, one.at}
			if all < 2 || failed[e] < all || well == passed[e] {
				continue
			}
			if found != "" {
				return ""
			}
			found = fmt.Sprintf("All that failed begins or ends on node %s of cluster %s: look there first.", one.node, c.ID)
		}
	}
	return found
}

// at is the place in the name of a spot.
func at(location string) string {
	_, place, _ := strings.Cut(location, " ")
	return place
}
