package nodehelper

import (
	"slices"
	"testing"
	"time"

	"strait.dev/strait/node"
)

func TestRefusedPacketsAreReportedForAnHour(t *testing.T) {
	t.Parallel()
	var r refusals
	at := time.Unix(1_000_000, 0)
	ours, others := node.Refused{Link: "link", Reason: node.RefusedNode}, node.Refused{Link: "other", Reason: node.RefusedSource}
	check := func(what string, now time.Time, want ...string) {
		t.Helper()
		if got := r.reasons("link", now); !slices.Equal(got, want) {
			t.Errorf("%s: reasons %v, want %v", what, got, want)
		}
	}
	r.update(map[node.Refused]uint64{ours: 5}, at)
	check("counted before the start", at)
	r.update(map[node.Refused]uint64{ours: 5, others: 1}, at.Add(time.Minute))
	check("refused on another link", at.Add(time.Minute))
	r.update(map[node.Refused]uint64{ours: 6, others: 1}, at.Add(2*time.Minute))
	r.update(map[node.Refused]uint64{ours: 6, others: 1}, at.Add(time.Hour))
	check("within the hour", at.Add(time.Hour), node.RefusedNode)
	check("later", at.Add(time.Hour+3*time.Minute))
	r.update(map[node.Refused]uint64{{Link: "link", Reason: node.RefusedSource}: 1, ours: 7}, at.Add(2*time.Hour))
	check("of two reasons", at.Add(2*time.Hour), node.RefusedNode, node.RefusedSource)
}
