package tun

import (
	"slices"
	"time"
)

// settled is for how long a preferred link has to be up before traffic leaves one
// that works: long enough for the far end to find it up as well.
const settled = 2 * time.Second

// choose names the link that shall be active, nil where there is none: the present
// one while none is fitter, else the first of the fittest. A settled link of the same
// remote gateway that comes earlier is preferred, so that traffic moves to new keys
// before the link with the old ones goes.
func choose(links []*Link, present *Link, now time.Time) *Link {
	if len(links) == 0 {
		return nil
	}
	at := slices.Index(links, present)
	best := links[max(at, 0)]
	fit, _ := best.fit(now)
	for _, l := range links {
		if f, _ := l.fit(now); f > fit {
			best, fit = l, f
		}
	}
	if at < 0 || best != present || fit == down {
		return best
	}
	for _, l := range links[:at] {
		f, since := l.fit(now)
		if f == fit && now.Sub(since) >= settled && l.label.Load().gateway == present.label.Load().gateway {
			return l
		}
	}
	return present
}
