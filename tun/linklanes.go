package tun

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"strait.dev/strait/config"
	"strait.dev/strait/underlay"
)

// Lanes: a link has as many as both ends have. Each is a Link of its own between the same keys, with its own
// WireGuard device, UDP port, link addresses, probes and share of the flows. Lane i uses the port of the first,
// lane 0, plus i, at both ends. Probes say how many lanes their sender has; lanes other than the first are open
// while the far end has said, over the first, that it has them, so that none is opened that can never be up.

// withLanes returns the configuration of each lane, those of a link one after the other. present are the links
// that there are. f.mu is held.
func (f *Fabric) withLanes(present map[linkKey]*Link) (all []LinkConfig) {
	for _, c := range f.configs {
		c.Lanes = max(min(c.Lanes, f.most, maxPort+1-int(c.ListenPort)), 1)
		all = append(all, c)
		if c.Lanes == 1 {
			continue
		}
		if l := present[keyOf(c)]; l != nil {
			for lane := 1; lane < min(c.Lanes, l.farLanes()); lane++ {
				all = append(all, c.onLane(lane))
			}
		}
	}
	return all
}

// newMuxes returns the sockets of all lanes. Those of a lane are open while it is.
func newMuxes(o underlay.Options) (all [config.MaxLanes]*underlay.Mux) {
	for lane := range all {
		all[lane] = underlay.NewMux(o)
	}
	return all
}

const maxPort = 65535

// onLane returns the configuration of another lane than the first.
func (c LinkConfig) onLane(lane int) LinkConfig {
	if c.Gateway == "" {
		c.Gateway = c.Name
	}
	c.Name = fmt.Sprintf("%s/%d", c.Name, lane)
	c.lane = lane
	if c.ListenPort != 0 {
		c.ListenPort += uint16(lane)
	}
	var endpoints []string
	for _, e := range c.Endpoints {
		host, port, _ := net.SplitHostPort(e) // never fails: endpoints are HOST:PORT
		if number, err := strconv.Atoi(port); err == nil && number+lane <= maxPort {
			endpoints = append(endpoints, net.JoinHostPort(host, strconv.Itoa(number+lane)))
		}
	}
	c.Endpoints = endpoints
	return c
}

// farLanes returns how many lanes the far end has, by its last probe.
func (l *Link) farLanes() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(int(l.prober.lanes), 1)
}

// laneInterval is the least time between two changes of lanes that far ends cause.
const laneInterval = time.Second

// followLanes opens lanes that both ends have, and closes those that the far end no longer has. f.mu is held.
func (f *Fabric) followLanes(now time.Time) {
	if now.Sub(f.followed) < laneInterval {
		return
	}
	for _, l := range *f.links.Load() {
		if l.key.lane == 0 && l.opened != max(min(int(l.lanes.Load()), l.farLanes()), 1) {
			f.followed = now
			if err := f.replaceLinks(); err != nil {
				f.options.Log.Error("cannot change the number of lanes", "error", err)
			}
			return
		}
	}
}
