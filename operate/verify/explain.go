package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// maxShown is the maximum number of failures of one cause that are printed.
const maxShown = 5

// explain writes the failed checks with causes and remedies, and the skipped ones with the
// reason: grouped by cause, the most general first.
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
			fmt.Fprintf(b, "  remedy: %s\n", remedy)
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
		b.WriteString("\nskipped:\n")
	}
	for _, text := range why {
		fmt.Fprintf(b, "– %s (%d)\n", text, times[text])
	}
}

// commonNode names the node that is the source or destination of all failed checks, if
// there is exactly one such node and other checks passed. Empty if there is none.
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
			found = fmt.Sprintf("All failed checks have node %s of cluster %s in common: check it first.", one.node, c.ID)
		}
	}
	return found
}

// at returns the node part of the name of a location.
func at(location string) string {
	_, place, _ := strings.Cut(location, " ")
	return place
}
