//go:build lab || nightly

package kernelnat

import (
	"math/rand/v2"
	"testing"
)

// The pipeline and a gateway of kernel parts (tunnel device, routes, nftables) get the same
// packets, and must produce the same output, field by field. Intended differences are
// listed in exceptions with the reason.

func TestG14_I2_I5_I6_RFC1624_RFC6040_RFC6691_PipelineAndKernelMakeTheSameOfEveryPacket(t *testing.T) {
	const batches, size = 200, 64
	k := newKernelRouter(t, "", statelessRules(), statelessRoutes)
	p := newPipeline(t, k.encapsulation)
	c := newComparison(k.encapsulation)
	m := &maker{Rand: rand.New(rand.NewPCG(6, 24))}
	for n := range batches {
		m.fromNode = n%2 == 0
		c.compare(t, k, p, m.fromNode, m.batch(k, size, func(int) sample { return m.any() }))
	}
	c.report(t)
	for outer, cells := range c.congestion {
		for inner, packets := range cells {
			if packets == 0 {
				t.Errorf("no packet had ECN %d outside and %d inside", outer, inner)
			}
		}
	}
}
