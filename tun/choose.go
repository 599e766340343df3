package tun

import (
	"slices"
	"time"
)

// settled is for how long a preferred link has to be up before traffic leaves one
// that works: long enough for the far end to find it up as well.
const settled = 2 * time.Second

// choose names the link that shall be active, nil where there is none: the present
// one while it is up or nobody else is, else the first that is up, else the first.
// A settled link of the same remote gateway that comes earlier is preferred, so
// that traffic moves to new keys before the link with the old ones goes.
func choose(links []*Link, present *Link, now time.Time) *Link {
	if len(links) == 0 {
		return nil
	}
	isUp := func(l *Link) bool { _, up := l.upFor(now); return up }
	at := slices.Index(links, present)
	if at >= 0 && isUp(present) {
		for _, l := range links[:at] {
			since, up := l.upFor(now)
			if up && since >= settled && l.label.Load().gateway == present.label.Load().gateway {
				return l
			}
		}
		return present
	}
	if up := slices.IndexFunc(links, isUp); up >= 0 {
		return links[up]
	}
	return links[max(at, 0)]
}
