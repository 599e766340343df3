package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// large is a document of that many nodes with that many pods' prefixes each, on
// every second line an own one.
func large(nodes, prefixes int) []byte {
	var b strings.Builder
	b.WriteString("apiVersion: strait.dev/v1alpha1\nkind: GatewayConfig\ncluster: a\n")
	b.WriteString("wireguard: {privateKeyFile: private.key}\n")
	b.WriteString("local: {prefixes: [10.0.0.0/8], externalPrefixes: [172.20.0.0/16]}\n")
	b.WriteString("remote:\n  cluster: b\n  prefixes:\n")
	for i := range 4096 {
		fmt.Fprintf(&b, "  - {cidr: 10.%d.%d.0/24, seenAs: 11.%d.%d.0/24}\n", i>>8, i&255, i>>8, i&255)
	}
	b.WriteString("overlay:\n  addresses: [172.16.0.1]\n  nodes:\n")
	for i := range nodes {
		fmt.Fprintf(&b, "  - name: node-%d\n    underlay: 192.168.%d.%d\n    vni: %d\n", i, i>>8, i&255, i+1)
		fmt.Fprintf(&b, "    addresses: [172.17.%d.%d]\n    externalAddresses: [172.20.%d.%d]\n    prefixes:\n", i>>8, i&255, i>>8, i&255)
		for j := range prefixes {
			n := i*prefixes + j
			fmt.Fprintf(&b, "    - 10.%d.%d.%d/32\n", n>>16, n>>8&255, n&255)
		}
	}
	return []byte(b.String())
}

// loads reads and checks a large configuration.
func loads(t *testing.T, nodes int) {
	t.Helper()
	g, err := Parse(large(nodes, 20))
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
}

// findsEveryProblem checks a large configuration in which all nodes have the prefixes of the
// first.
func findsEveryProblem(t *testing.T, nodes int) {
	t.Helper()
	g, err := Parse(large(nodes, 20))
	if err != nil {
		t.Fatal(err)
	}
	for i := range g.Overlay.Nodes {
		copy(g.Overlay.Nodes[i].Prefixes, g.Overlay.Nodes[0].Prefixes)
	}
	var problems Problems
	if want := (nodes - 1) * 20; !errors.As(g.Validate(), &problems) || len(problems) != want {
		t.Fatalf("%d problems, want %d", len(problems), want)
	}
	last := fmt.Sprintf("overlay.nodes[%d].prefixes[19]", nodes-1)
	if p := problems[len(problems)-1]; p.Field != last || p.Line != 4107+nodes*26 {
		t.Errorf("the last is %+v, want %s", p, last)
	}
}

func TestF20_HundredsOfNodesWithThousandsOfPrefixesLoad(t *testing.T) {
	t.Parallel()
	loads(t, 250)
}

func TestThousandsOfProblemsAreAllFound(t *testing.T) {
	t.Parallel()
	findsEveryProblem(t, 250)
}

func BenchmarkLoad(b *testing.B) {
	text := large(1000, 20)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		g, err := Parse(text)
		if err != nil {
			b.Fatal(err)
		}
		if err := g.Validate(); err != nil {
			b.Fatal(err)
		}
	}
}
