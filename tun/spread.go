package tun

import (
	"cmp"
	"slices"
)

// buckets is the number of parts into which flows are divided, by their hash.
const buckets = 256

// spread decides which remote gateway gets the flows of each bucket. Flows move as rarely as possible:
//
//   - Each gateway has a share of the buckets, in proportion to its weight. When gateways join or leave, or weights
//     change, only those buckets move that the new shares require.
//   - Between these, each bucket has a home. While its home cannot be reached, it is with another gateway; it
//     is home again when the home can be reached. All other buckets stay where they are.
//
// The zero value has no gateways.
type spread struct{ home, now [buckets]*member }

// share divides the buckets among members.
func (s *spread) share(members []*member) {
	count := make([]int, len(members))
	for bucket, home := range s.home {
		if i := slices.Index(members, home); i >= 0 {
			count[i]++
		} else {
			s.home[bucket] = nil
		}
	}
	want := shares(members, count)
	for bucket := buckets - 1; bucket >= 0; bucket-- {
		if i := slices.Index(members, s.home[bucket]); i >= 0 && count[i] > want[i] {
			s.home[bucket] = nil
			count[i]--
		}
	}
	to := 0
	for bucket, home := range s.home {
		if home != nil {
			continue
		}
		for count[to] == want[to] {
			to++
		}
		s.home[bucket] = members[to]
		count[to]++
	}
}

// shares returns the number of buckets that each gateway is to have: all buckets in proportion to the weights, or
// evenly if all are 0. Those left over by rounding down go to the gateways with the largest remainders, and
// of these to those that have the most buckets now.
func shares(members []*member, now []int) []int {
	weights, total := make([]int, len(members)), 0
	for i, m := range members {
		weights[i] = m.weight
		total += m.weight
	}
	if total == 0 {
		total = len(members)
		for i := range weights {
			weights[i] = 1
		}
	}
	want, order := make([]int, len(members)), make([]int, len(members))
	left := buckets
	for i, w := range weights {
		order[i] = i
		want[i] = buckets * w / total
		left -= want[i]
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(buckets*weights[b]%total, buckets*weights[a]%total), cmp.Compare(now[b], now[a]))
	})
	for _, i := range order[:left] {
		want[i]++
	}
	return want
}

// move moves the buckets to live members, of which there is one at least. Buckets that are away from home are divided evenly
// among the members that have them.
func (s *spread) move(live []*member) {
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
}
