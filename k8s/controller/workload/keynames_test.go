package workload

import (
	"fmt"
	"strings"
	"testing"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Keys come to pods that run, and one in use is never out of reach.
func TestPodsGetTheGenerationsAroundTheOnesInUse(t *testing.T) {
	for _, c := range []struct {
		wanted int32
		inUse  []int32
		want   string
	}{
		{0, nil, "1 to 8"}, {1, []int32{1}, "1 to 8"}, {8, []int32{7, 8}, "1 to 8"},
		{9, []int32{8}, "1 to 16"}, {9, []int32{9}, "1 to 16"}, {16, []int32{16}, "1 to 16"}, {17, []int32{16}, "9 to 24"},
		{30, []int32{3, 0}, "1 to 8, 17 to 32"}, {2, []int32{40}, "1 to 8"},
	} {
		p := &v1alpha1.Peering{Spec: v1alpha1.PeeringSpec{Gateway: v1alpha1.GatewaySpec{KeyGeneration: c.wanted}}}
		for _, g := range c.inUse {
			p.Status.Gateways = append(p.Status.Gateways, v1alpha1.GatewayStatus{KeyGeneration: g})
		}
		var runs []string
		all := generations(p)
		for from := 0; from < len(all); {
			to := from
			for to+1 < len(all) && all[to+1] == all[to]+1 {
				to++
			}
			runs = append(runs, fmt.Sprintf("%d to %d", all[from], all[to]))
			from = to + 1
		}
		if got := strings.Join(runs, ", "); got != c.want {
			t.Errorf("wanted %d, in use %v: %s, want %s", c.wanted, c.inUse, got, c.want)
		}
	}
}
