package tun

import (
	"cmp"
	"slices"

	"strait.dev/strait/underlay"
)

// spread decides which lane gets the flows of each bucket. Flows move as rarely as possible:
//
//   - Each lane has a share of the buckets, in proportion to its weight. When lanes join or leave, or weights
//     change, only those buckets move that the new shares require.
//   - Between these, each bucket has a home. While its home cannot forward, it is with another lane; it
//     is home again when the home can forward. All other buckets stay where they are.
//
// The zero value has no lanes.
type spread struct{ home, now [underlay.Buckets]*lane }

// share divides the buckets among lanes.
func (s *spread) share(lanes []*lane) {
	count := make([]int, len(lanes))
	for bucket, home := range s.home {
		if i := slices.Index(lanes, home); i >= 0 {
			count[i]++
		} else {
			s.home[bucket] = nil
		}
	}
	want := shares(lanes, count)
	for bucket := underlay.Buckets - 1; bucket >= 0; bucket-- {
		if i := slices.Index(lanes, s.home[bucket]); i >= 0 && count[i] > want[i] {
			s.home[bucket] = nil
			count[i]--
		}
	}
	to := 0 // one lane after the other: neighbours make a short program
	for bucket, home := range s.home {
		if home != nil {
			continue
		}
		for count[to] == want[to] {
			to++
		}
		s.home[bucket] = lanes[to]
		count[to]++
	}
}

// shares returns the number of buckets that each lane is to have: all buckets in proportion to the weights, or
// evenly if all are 0. Those left over by rounding down go to the lanes with the largest remainders, and
// of these to those that have the most buckets now.
func shares(lanes []*lane, now []int) []int {
	weights, total := make([]int, len(lanes)), 0
	for i, l := range lanes {
		weights[i] = l.weight
		total += l.weight
	}
	if total == 0 {
		total = len(lanes)
		for i := range weights {
			weights[i] = 1
		}
	}
	want, order := make([]int, len(lanes)), make([]int, len(lanes))
	left := underlay.Buckets
	for i, w := range weights {
		order[i] = i
		want[i] = underlay.Buckets * w / total
		left -= want[i]
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(underlay.Buckets*weights[b]%total, underlay.Buckets*weights[a]%total), cmp.Compare(now[b], now[a]))
	})
	for _, i := range order[:left] {
		want[i]++
	}
	return want
}

// move moves the buckets to live lanes, of which there is one at least, and reports whether any moved. Buckets that
// are away from home are divided evenly among the lanes that have them.
func (s *spread) move(live []*lane) (moved bool) {
	before := s.now
	away, count := make([]int, len(live)), make([]int, len(live))
	for bucket, home := range s.home {
		if slices.Contains(live, home) {
			s.now[bucket] = home
		}
		if i := slices.Index(live, s.now[bucket]); i < 0 {
			s.now[bucket] = nil
		} else if count[i]++; s.now[bucket] != home {
			away[i]++
		}
	}
	for bucket, now := range s.now {
		if now != nil {
			continue
		}
		to := 0
		for i := range live {
			if cmp.Or(cmp.Compare(away[i], away[to]), cmp.Compare(count[i], count[to])) < 0 {
				to = i
			}
		}
		s.now[bucket] = live[to]
		away[to]++
		count[to]++
	}
	return s.now != before
}
