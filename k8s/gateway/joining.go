package gateway

import (
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/internal/daemon"
)

// A new gateway has links only when nodes can receive from it. The kernel of a node accepts
// overlay packets only from the addresses of gateways that its helper has configured, and a
// new pod has a new address. The remote cluster knows the key of the gateway, so that it
// would send as soon as the link is up, and the packets would be lost.
//
// A probe of a node shows that the node has configured this address. All nodes learn it from
// the same change of the Peering, but on busy machines some configure it seconds after others.
// So a gateway waits for all of its nodes, for joinPatience after the first: some may be down.
// A gateway that no node probes has its links after joinTimeout: node helpers may be away, and
// their nodes still receive packets. A process that restarts in its pod keeps its address, and
// does not wait.
const (
	joinPatience = 4 * time.Second
	joinTimeout  = 8 * time.Second
	joinInterval = time.Second / 4 // at which a gateway that waits looks
)

// joining decides when the links of a gateway start. Used only by the goroutine that calls
// follow.
type joining struct {
	done   bool
	since  time.Time // when the gateway first served its nodes; zero: not yet
	probed time.Time // when the first node had probed it; zero: none yet

	withheld bool // links are missing from the latest configuration
}

// check evaluates the gateway at the time now: d is the running gateway, nil before it runs,
// and c its configuration.
func (j *joining) check(d *daemon.Daemon, c *config.Gateway, now time.Time) {
	if !j.done && d != nil && c != nil {
		j.update(len(c.Overlay.Nodes), d.Fabric().Gateway.Table().NodesThatProbed(), now)
	}
}

// update evaluates a gateway that serves this number of nodes, of which so many have probed it.
func (j *joining) update(nodes, probed int, now time.Time) {
	if j.since.IsZero() {
		j.since = now
	}
	if probed > 0 && j.probed.IsZero() {
		j.probed = now
	}
	j.done = j.done || probed >= nodes || now.Sub(j.since) >= joinTimeout || !j.probed.IsZero() && now.Sub(j.probed) >= joinPatience
}

func (j *joining) waits() bool { return !j.done }

// without returns the configuration without links while the gateway must not have any.
func (j *joining) without(c *config.Gateway) *config.Gateway {
	j.withheld = c != nil && !j.done && len(c.WireGuard.Peers) > 0
	if !j.withheld {
		return c
	}
	w := *c
	w.WireGuard.Peers = nil
	return &w
}
