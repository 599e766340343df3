package daemon

import (
	"os"
	"strings"
	"testing"

	"strait.dev/strait/gateway"
)

// The page names every metric and every reason that a running gateway serves, and
// no other.
func TestMetricsPageIsComplete(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	b := newBench(t)
	b.start(t)
	served := map[string]bool{"strait_wireguard_handshake_age_seconds": true, "strait_link_rtt_seconds": true} // absent without a peer
	for line := range strings.Lines(b.get("/metrics")) {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok && strings.HasPrefix(name, "strait_") {
			name, _, _ = strings.Cut(name, " ")
			served[name] = true
		}
	}
	for name := range served {
		if !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("%s is not documented", name)
		}
	}
	for line := range strings.Lines(page) {
		if name, ok := strings.CutPrefix(line, "| `strait_"); ok {
			name, _, _ = strings.Cut(name, "`")
			if !served["strait_"+name] {
				t.Errorf("strait_%s is documented and not served", name)
			}
		}
	}
	for r := range gateway.Reasons {
		if !strings.Contains(page, "`"+r.String()+"`") {
			t.Errorf("reason %v is not documented", r)
		}
	}
}
