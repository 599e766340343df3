//go:build lab || nightly

package kernelnat

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// comparison counts compared packets and exceptions.
type comparison struct {
	encapsulation          string
	fates, kinds, excepted map[string]int
	different              map[string]int // by type and difference
	congestion             [4][4]int      // packets from a node by outer and inner ECN
}

func newComparison(encapsulation string) *comparison {
	return &comparison{encapsulation: encapsulation, fates: map[string]int{}, kinds: map[string]int{},
		excepted: map[string]int{}, different: map[string]int{}}
}

// compare passes a batch to both gateways, and returns the kernel's outcomes.
func (c *comparison) compare(t *testing.T, k *kernelRouter, p *pipeline, fromNode bool, batch []sample) []outcome {
	t.Helper()
	passed := k.pass(t, fromNode, batch)
	for i, kernels := range passed {
		s, ours := batch[i], outcome{}
		if fromNode {
			ours = p.fromNode(s)
		} else {
			ours = p.fromTunnel(s.ip)
		}
		c.kinds[s.kind]++
		c.congestion[s.ecn][innerECN(s.ip)]++
		switch {
		case len(ours.answer) > 0:
			c.fates["answered by an ICMP error"]++
		case ours.dropped():
			c.fates["dropped"]++
		case len(ours.out) > 1:
			c.fates["fragmented"]++
		default:
			c.fates["forwarded"]++
		}
		differences := outcomesDiffer(kernels, ours)
		if len(differences) == 0 {
			continue
		}
		if whys, ok := excepted(s, differences, kernels, ours); ok {
			for _, why := range whys {
				c.excepted[why]++
			}
			continue
		}
		if c.note(s.trait, differences) {
			t.Errorf("%s: %v\nsent\n%skernel: %s\nours: %s",
				s.kind, differences, describe(s.ip), kernels.describe(), ours.describe())
		}
	}
	return passed
}

// note counts a difference and reports whether it is the first of its type, which is
// printed.
func (c *comparison) note(about trait, differences []difference) (first bool) {
	var whats []string
	for _, d := range differences {
		whats = append(whats, d.what)
	}
	text := fmt.Sprintf("%s (traits %b)", strings.Join(whats, ", "), about)
	c.different[text]++
	return c.different[text] == 1 && len(c.different) <= 20
}

func (c *comparison) report(t *testing.T) {
	t.Helper()
	for _, what := range slices.Sorted(maps.Keys(c.different)) {
		t.Errorf("%d packets became something else: %s", c.different[what], what)
	}
	total := 0
	for _, kind := range slices.Sorted(maps.Keys(c.kinds)) {
		t.Logf("%6d  %s", c.kinds[kind], kind)
		total += c.kinds[kind]
	}
	t.Logf("%6d  in all, behind kernel %s", total, c.encapsulation)
	for _, what := range slices.Sorted(maps.Keys(c.fates)) {
		t.Logf("%6d  %s", c.fates[what], what)
	}
	for _, what := range slices.Sorted(maps.Keys(c.excepted)) {
		t.Logf("%6d  excepted: %s", c.excepted[what], what)
	}
}

func innerECN(ip []byte) byte {
	if ip[0]>>4 == 6 {
		return ip[1] >> 4 & 3
	}
	return ip[1] & 3
}
