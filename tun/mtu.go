package tun

import (
	"log/slog"
	"sync/atomic"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/ratelimit"
	"strait.dev/strait/link"
)

// The inner MTU changes mtuBurst times at once, and then once per mtuInterval: the far end may announce another one in each
// probe, and each change builds a table, and makes all nodes change their routes.
const (
	mtuInterval = 10 * time.Second
	mtuBurst    = 8
)

// mtus are the inner MTUs that the links of a gateway teach: what its far ends announce, and what the paths to them carry.
type mtus struct {
	gateway  *gateway.Gateway
	links    *linkList
	log      *slog.Logger
	announce func(mtu int) // nil: no caller wants to know

	limit atomic.Int64 // largest packet that the paths of the links carry; 0 = as the interfaces

	// Of the goroutine that decides.
	last    int // last announced, 0 = none
	changes ratelimit.Bucket
}

// own returns the inner MTU that this end announces: what its interfaces and its paths carry.
func (m *mtus) own() int {
	own := m.gateway.Table().LocalMTU()
	if limit := int(m.limit.Load()); limit != 0 {
		own = min(own, limit)
	}
	return own
}

// update announces a change of the smallest MTU that far ends announce and paths carry, later if there were many. While no
// link has an announcement, because all were replaced, the last one holds: nodes would otherwise change their routes twice.
func (m *mtus) update(now time.Time) {
	smallest := 0
	var paths []link.Path // of links that are up
	links := m.links.all()
	for _, l := range links {
		p, path := l.state.copies()
		if p.Fit(now) != link.Down {
			paths = append(paths, path)
		}
		if announced := int(p.Last.MTU); announced != 0 && (smallest == 0 || announced < smallest) {
			smallest = max(announced, link.MinMTU)
		}
	}
	limit := m.limitPaths(paths)
	if smallest == 0 && len(links) > 0 {
		return
	}
	if limit != 0 && (smallest == 0 || limit < smallest) {
		smallest = limit
	}
	if smallest != m.last && m.changes.Take(now, mtuInterval, mtuBurst) {
		m.last = smallest
		if m.announce != nil {
			m.announce(smallest)
		}
	}
}

// limitPaths stores and returns the largest packet that all paths carry, 0 if they carry what the interfaces do. The
// last limit holds while no link is up, and until links that came up have found theirs.
func (m *mtus) limitPaths(paths []link.Path) (limit int) {
	before := int(m.limit.Load())
	for _, p := range paths {
		of := p.Limit
		if !p.Settled && of == 0 {
			of = before
		}
		if of != 0 && (limit == 0 || of < limit) {
			limit = of
		}
	}
	if len(paths) == 0 || limit == before {
		return before
	}
	m.limit.Store(int64(limit))
	if limit == 0 {
		m.log.Info("packets of all sizes cross to the remote cluster again", "mtu", m.gateway.Table().LocalMTU())
	} else {
		m.log.Warn("the path to the remote cluster drops larger packets than its interfaces carry", "carries", limit, "interfaces", m.gateway.Table().LocalMTU())
	}
	return limit
}
