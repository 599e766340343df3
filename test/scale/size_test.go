//go:build nightly

package scale

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// size is how much is measured.
type size struct {
	nodes, pods int
	rate        int  // changes a second: a pod that comes, with its status, or one that goes
	seconds     int  // without changes, and again with them
	bounds      bool // hold the results against bounds
}

// One pod in so many has an address outside of its node's podCIDR, and so needs a route
// of its own: of those that are there, and of those that come and go.
const (
	outsideShare      = 100
	outsideChurnShare = 10
)

// mostNodes have a /24 each in podRange.
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
			t.Fatalf("%s=%s is not a number; give one from 1", name, text)
		}
		*into = n
	}
	if s.nodes < 2 || s.nodes > mostNodes || s.pods < outsideShare || s.pods > 200*s.nodes {
		t.Fatalf("%d nodes and %d pods: give 2 to %d nodes, and %d pods to 200 for each node", s.nodes, s.pods, mostNodes, outsideShare)
	}
	return s
}

func (s size) span() time.Duration { return time.Duration(s.seconds) * time.Second }
