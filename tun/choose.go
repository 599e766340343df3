package tun

import (
	"slices"
	"time"

	"strait.dev/strait/link"
)

// settled is how long a preferred link must have been up at the last news (link.Prober) before traffic
// moves to it from a working one: long enough for the far end to see it up too. The time without news
// since then does not count, because the link may have failed again, which is not known yet.
const settled = 2 * time.Second

// choose returns the link to make active, nil if there is none: the present one while no other
// is fitter, else the first of the fittest. An earlier link to the same remote gateway that is
// settled is preferred, so that traffic moves to new keys before the link with
// the old keys is removed.
func choose(links []*Link, present *Link, now time.Time) *Link {
	if len(links) == 0 {
		return nil
	}
	at := slices.Index(links, present)
	best := links[max(at, 0)]
	fit := best.state.fit(now)
	for _, l := range links {
		if f := l.state.fit(now); f > fit {
			best, fit = l, f
		}
	}
	if at < 0 || best != present || fit == link.Down {
		return best
	}
	for _, l := range links[:at] {
		if p, _ := l.state.copies(); p.Fit(now) == fit && p.Steady() >= settled && l.alternative(present) {
			return l
		}
	}
	return present
}

// carriers returns the members that carry packets. One that comes up while others carry packets does so
// once it has settled.
func carriers(members []*member) (live []*member) {
	best := link.Down
	for _, m := range members {
		best = max(best, m.fit)
	}
	for _, m := range members {
		if m.fit == best && (best != link.Up || m.live || m.steady >= settled) {
			live = append(live, m)
		}
	}
	switch {
	case best != link.Down && len(live) > 0:
		return live
	case best != link.Down:
		return slices.DeleteFunc(slices.Clone(members), func(m *member) bool { return m.fit != best })
	case len(members) == 0:
		return nil
	}
	at := max(slices.IndexFunc(members, func(m *member) bool { return m.live }), 0)
	return members[at : at+1]
}
