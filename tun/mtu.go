package tun

import (
	"log/slog"
	"sync/atomic"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/link"
)

// mtus are the inner MTUs that the links of a gateway teach: what its far ends announce, and what the paths to them carry.
type mtus struct {
	gateway  *gateway.Gateway
	links    *linkList
	log      *slog.Logger
	announce func(mtu int) // nil: no caller wants to know

	limit atomic.Int64 // largest packet that the paths of the links carry; 0 = as the interfaces
	last  int          // last announced, 0 = none; of the goroutine that decides
}

// own returns the inner MTU that this end announces: what its interfaces and its paths carry.
func (m *mtus) own() int {
	own := m.gateway.Table().LocalMTU()
	if limit := int(m.limit.Load()); limit != 0 {
		own = min(own, limit)
	}
	return own
}

// pathLimit is what limits the path of one link.
type pathLimit struct {
	up, settled bool // settled: size holds for the path on which the link came up
	size        int  // 0 = none is known
}

// update announces a change of the smallest MTU that far ends announce and paths carry. While no link has an announcement,
// because all were replaced, the last one holds: nodes would otherwise change their routes twice.
func (m *mtus) update(now time.Time) {
	smallest := 0
	var paths []pathLimit
	for _, l := range m.links.all() {
		announced, path := l.state.mtu(now)
		paths = append(paths, path)
		if announced != 0 && (smallest == 0 || announced < smallest) {
			smallest = max(announced, link.MinMTU)
		}
	}
	limit := m.limitPaths(paths)
	if smallest == 0 && len(paths) > 0 {
		return
	}
	if limit != 0 && (smallest == 0 || limit < smallest) {
		smallest = limit
	}
	if smallest != m.last {
		m.last = smallest
		if m.announce != nil {
			m.announce(smallest)
		}
	}
}

// limitPaths stores and returns the largest packet that all paths carry, 0 if they carry what the interfaces do. The
// last limit holds while no link is up, and until links that came up have found theirs.
func (m *mtus) limitPaths(paths []pathLimit) (limit int) {
	before := int(m.limit.Load())
	known := false
	for _, p := range paths {
		if !p.up {
			continue
		}
		known = true
		if !p.settled && p.size == 0 {
			p.size = before
		}
		if p.size != 0 && (limit == 0 || p.size < limit) {
			limit = p.size
		}
	}
	if !known || limit == before {
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
