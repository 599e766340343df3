package tun

import (
	"slices"
	"testing"
	"time"

	"strait.dev/strait/underlay"
)

// counts returns the number of buckets of each lane.
func counts(table [underlay.Buckets]*lane, lanes []*lane) []int {
	count := make([]int, len(lanes))
	for _, l := range table {
		count[slices.Index(lanes, l)]++
	}
	return count
}

func even(count []int) bool { return slices.Max(count)-slices.Min(count) <= 1 }

func TestTheBucketsAreSpreadEvenlyAndMoveOnlyWithTheirLane(t *testing.T) {
	t.Parallel()
	var s spread
	var lanes []*lane
	for len(lanes) < 16 { // lanes join
		joins := new(lane)
		lanes = append(lanes, joins)
		before := s.now
		s.share(lanes)
		s.move(lanes)
		if got := counts(s.now, lanes); !even(got) {
			t.Errorf("%d lanes have %v buckets", len(lanes), got)
		}
		for bucket, now := range s.now {
			if before[bucket] != nil && now != before[bucket] && now != joins {
				t.Fatalf("%d lanes: bucket %d moves between lanes that stay", len(lanes), bucket)
			}
		}
	}
	for down, l := range lanes { // one is down, and up again
		all := s.now
		live := slices.Delete(slices.Clone(lanes), down, down+1)
		if !s.move(live) || s.move(live) {
			t.Error("it does not say when buckets move")
		}
		if got := counts(s.now, live); !even(got) {
			t.Errorf("without lane %d the others have %v buckets", down, got)
		}
		for bucket, now := range s.now {
			if all[bucket] != l && now != all[bucket] {
				t.Fatalf("bucket %d moves, but its lane is up", bucket)
			}
		}
		without := s.now
		second := (down + 5) % len(lanes)
		s.move(slices.DeleteFunc(slices.Clone(live), func(other *lane) bool { return other == lanes[second] }))
		for bucket, now := range s.now {
			if without[bucket] != lanes[second] && now != without[bucket] {
				t.Fatalf("bucket %d moves with another lane", bucket)
			}
		}
		if s.move(lanes); s.now != all {
			t.Errorf("lane %d is up again, and its buckets are elsewhere", down)
		}
	}
	for len(lanes) > 1 { // lanes leave
		leaves, before := lanes[0], s.now
		lanes = lanes[1:]
		s.share(lanes)
		s.move(lanes)
		if got := counts(s.now, lanes); !even(got) {
			t.Errorf("%d lanes that stay have %v buckets", len(lanes), got)
		}
		for bucket, now := range s.now {
			if before[bucket] != leaves && now != before[bucket] {
				t.Fatalf("bucket %d moves between lanes that stay", bucket)
			}
		}
	}
}

func TestTheGatewaysThatCarryPackets(t *testing.T) {
	t.Parallel()
	type gateway struct {
		fit  fitness
		up   time.Duration // when its last probe was answered
		live bool
	}
	for name, c := range map[string]struct {
		gateways []gateway
		want     []int
	}{
		"none":                             {nil, nil},
		"nothing is up":                    {[]gateway{{down, 0, false}, {down, 0, false}}, []int{0}},
		"nothing is up any more":           {[]gateway{{down, 0, false}, {down, 0, true}, {down, 0, true}}, []int{1}},
		"the first that is up":             {[]gateway{{down, 0, true}, {up, 0, false}}, []int{1}},
		"all that come up at once":         {[]gateway{{up, 0, false}, {up, 0, false}}, []int{0, 1}},
		"one that has just come up":        {[]gateway{{up, time.Hour, true}, {up, settled - 1, false}}, []int{0}},
		"one that has settled":             {[]gateway{{up, time.Hour, true}, {up, settled, false}}, []int{0, 1}},
		"one that ends":                    {[]gateway{{ending, time.Hour, true}, {up, 0, false}}, []int{1}},
		"all end":                          {[]gateway{{ending, time.Hour, true}, {ending, 0, false}, {down, 0, true}}, []int{0, 1}},
		"one that was up for a moment":     {[]gateway{{up, time.Hour, true}, {up, 0, true}}, []int{0, 1}},
		"one is down, and the others stay": {[]gateway{{up, time.Hour, true}, {down, 0, true}, {up, time.Hour, true}}, []int{0, 2}},
	} {
		var members []*member
		for _, g := range c.gateways {
			members = append(members, &member{fit: g.fit, steady: g.up, lane: &lane{live: g.live}})
		}
		var got []int
		for _, m := range carriers(members) {
			got = append(got, slices.Index(members, m))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v carry packets, want %v", name, got, c.want)
		}
	}
}
