package preflight

import (
	"strings"
	"testing"

	"strait.dev/strait/operate/findings"
)

// Nodes of an installation refuse the probes: that is no fault of a firewall.
func TestUDPBetweenNodesIsNotProbedWhereTheyAcceptItFromGatewaysOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		facts facts
		says  string
	}{
		"installed":                      {facts{image: "strait.dev/strait:0.1.0"}, "nodes accept UDP 6091 from gateways only"},
		"installed without node helpers": {facts{image: "strait.dev/strait:0.1.0", withoutHelpers: true}, "UDP 6091 is free on 0 nodes"},
		"not installed":                  {facts{}, "UDP 6091 is free on 0 nodes"},
	} {
		got := (&agentGroup{facts: &c.facts}).mesh(t.Context(), nil)
		if len(got) != 1 || got[0].Code != "STRAIT-N010" || got[0].Severity != findings.Skipped || !strings.Contains(got[0].Message, c.says) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
