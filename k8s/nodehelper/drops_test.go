package nodehelper

import (
	"maps"
	"testing"
	"time"
)

func TestDropsAreSaidOnceAndNotTooOften(t *testing.T) {
	var d drops
	start := time.Unix(1_000_000, 0)
	for _, step := range []struct {
		after  time.Duration
		totals map[string]uint64
		want   map[string]uint64
	}{
		{0, map[string]uint64{"wrong_vni": 3}, map[string]uint64{"wrong_vni": 3}},
		{refresh / 2, map[string]uint64{"wrong_vni": 5}, nil},
		{refresh, map[string]uint64{"wrong_vni": 7, "device_write": 1}, map[string]uint64{"wrong_vni": 4, "device_write": 1}},
		{2 * refresh, map[string]uint64{"wrong_vni": 7, "device_write": 1}, nil},
	} {
		if got := d.since(step.totals, start.Add(step.after)); !maps.Equal(got, step.want) {
			t.Errorf("after %v: %v, want %v", step.after, got, step.want)
		}
	}
}
