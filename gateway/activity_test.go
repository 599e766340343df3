package gateway_test

import (
	"testing"
	"time"

	"strait.dev/strait/nodeprobe"
)

// A node whose data crosses, in either direction, is asked to probe the gateway more often than others, until 2 s later.
func TestNodesWhoseDataCrossesProbeMoreOften(t *testing.T) {
	t.Parallel()
	for _, w := range families {
		for name, cross := range map[string]func(a *side){
			"egress":  func(a *side) { a.fromNode(flow{src: w.podA, dst: w.seenPodB}.udp(counting(16))) },
			"ingress": func(a *side) { a.fromTunnel(flow{src: w.podB, dst: w.podA}.udp(counting(16))) },
		} {
			a := newA(t)
			asks := func(n wire, from string) time.Duration {
				t.Helper()
				a.now = a.now.Add(nodeprobe.RestInterval)
				m, ok := a.ask(t, n, from, w.gateway, 1)
				if !ok {
					t.Fatal("a probe is not answered")
				}
				return m.Interval
			}
			if asked := asks(node1A, w.node); asked != nodeprobe.RestInterval || a.Active(a.now) {
				t.Errorf("%s: before any data the gateway asks for %v", name, asked)
			}
			for range 10 {
				cross(a)
				if asked := asks(node1A, w.node); asked != nodeprobe.MinInterval || !a.Active(a.now) {
					t.Errorf("%s: while data crosses the gateway asks for %v", name, asked)
				}
				if asked := asks(node2A, w.nodeWithout); asked != nodeprobe.RestInterval {
					t.Errorf("%s: the gateway asks another node for %v", name, asked)
				}
			}
			a.now = a.now.Add(-time.Hour) // the clock of the machine is set back
			cross(a)
			if asked := asks(node1A, w.node); asked != nodeprobe.MinInterval {
				t.Errorf("%s: after a step of the clock the gateway asks for %v", name, asked)
			}
			a.now = a.now.Add(2 * time.Second)
			if asked := asks(node1A, w.node); asked != nodeprobe.RestInterval || a.Active(a.now) {
				t.Errorf("%s: 2 s after the last packet the gateway asks for %v", name, asked)
			}
		}
	}
}
