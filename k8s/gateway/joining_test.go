package gateway

import (
	"testing"
	"time"

	"strait.dev/strait/config"
)

func TestF2_ANewGatewayHasLinksWhenNodesReachIt(t *testing.T) {
	begun := time.Unix(1, 0)
	peers := &config.Gateway{WireGuard: config.WireGuard{Peers: []config.Peer{{Name: "a-0"}}}}
	type step struct {
		after         time.Duration
		nodes, probed int
		links         bool
	}
	for name, steps := range map[string][]step{
		"all nodes probe it":             {{0, 3, 0, false}, {time.Second, 3, 1, false}, {1900 * time.Millisecond, 3, 2, false}, {2 * time.Second, 3, 3, true}, {time.Hour, 4, 3, true}},
		"a node is down":                 {{0, 3, 0, false}, {time.Second, 3, 2, false}, {4900 * time.Millisecond, 3, 2, false}, {5 * time.Second, 3, 2, true}},
		"no node probes it":              {{0, 3, 0, false}, {7900 * time.Millisecond, 3, 0, false}, {8 * time.Second, 3, 0, true}},
		"the first probe comes late":     {{0, 3, 0, false}, {7500 * time.Millisecond, 3, 1, false}, {8 * time.Second, 3, 1, true}},
		"there are no nodes":             {{0, 0, 0, true}},
		"nodes come after it has joined": {{0, 0, 0, true}, {time.Second, 3, 0, true}},
	} {
		var j joining
		if !j.waits() || len(j.without(peers).WireGuard.Peers) != 0 {
			t.Errorf("%s: it has links before it runs", name)
		}
		for _, s := range steps {
			j.update(s.nodes, s.probed, begun.Add(s.after))
			if links := len(j.without(peers).WireGuard.Peers) > 0; links != s.links || j.waits() == s.links {
				t.Errorf("%s: after %v it has links: %v, want %v", name, s.after, links, s.links)
			}
		}
	}
	if len(peers.WireGuard.Peers) != 1 {
		t.Error("the configuration was changed")
	}
}
