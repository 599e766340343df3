package tun

import (
	"slices"

	"strait.dev/strait/underlay"
)

// spread decides which lane gets the flows of each bucket. Flows move as rarely as possible:
//
//   - A lane that joins takes an even share of the buckets, and only these move. The share of a lane
//     that leaves is divided among the others.
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
	for bucket, home := range s.home {
		if home == nil {
			i := slices.Index(count, slices.Min(count))
			s.home[bucket] = lanes[i]
			count[i]++
		}
	}
	for slices.Max(count)-slices.Min(count) > 1 {
		from, to := slices.Index(count, slices.Max(count)), slices.Index(count, slices.Min(count))
		last := underlay.Buckets - 1 // neighbours make a short program
		for s.home[last] != lanes[from] {
			last--
		}
		s.home[last] = lanes[to]
		count[from]--
		count[to]++
	}
}

// move moves the buckets to live lanes, of which there is one at least, and reports whether any moved.
func (s *spread) move(live []*lane) (moved bool) {
	before := s.now
	count := make([]int, len(live))
	for bucket, home := range s.home {
		if slices.Contains(live, home) {
			s.now[bucket] = home
		}
		if i := slices.Index(live, s.now[bucket]); i >= 0 {
			count[i]++
		} else {
			s.now[bucket] = nil
		}
	}
	for bucket, now := range s.now {
		if now == nil {
			i := slices.Index(count, slices.Min(count))
			s.now[bucket] = live[i]
			count[i]++
		}
	}
	return s.now != before
}
