//go:build nightly

package scale

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// size is the size of the measured cluster.
type size struct {
	nodes, pods int
	rate        int  // changes per second: a pod is created, with its status, or removed
	seconds     int  // without changes, and again with them
	bounds      bool // check bounds
}

// The fraction of pods with an address outside of their node's podCIDR, which need a
// separate route: of existing pods, and of created and removed ones.
const (
	outsideShare      = 100
	outsideChurnShare = 10
)

// mostNodes is the number of /24 prefixes in podRange.
const mostNodes = 8000

func sizeFromEnvironment(t *testing.T) size {
	s := size{nodes: 50, pods: 500, rate: 20, seconds: 3}
	s.bounds = os.Getenv("SCALE_NODES") != ""
	for name, into := range map[string]*int{
		"SCALE_NODES": &s.nodes, "SCALE_PODS": &s.pods, "SCALE_RATE": &s.rate, "SCALE_SECONDS": &s.seconds,
	} {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("%s=%s is not a number; use 1 or more", name, text)
		}
		*into = n
	}
	if s.nodes < 2 || s.nodes > mostNodes || s.pods < outsideShare || s.pods > 200*s.nodes {
		t.Fatalf("%d nodes and %d pods: use 2 to %d nodes, and %d pods to 200 per node", s.nodes, s.pods, mostNodes, outsideShare)
	}
	return s
}

func (s size) span() time.Duration { return time.Duration(s.seconds) * time.Second }
