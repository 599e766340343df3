package daemon

import (
	"strings"
	"testing"

	"strait.dev/strait/gateway"
	"strait.dev/strait/test/metricspage"
)

func TestMetricsPageIsComplete(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.start(t)
	metricspage.Check(t, "Gateway", b.get("/metrics"),
		"strait_wireguard_handshake_age_seconds", "strait_link_rtt_seconds") // absent without a peer
	page := metricspage.Page(t)
	for r := range gateway.Reasons {
		if !strings.Contains(page, "`"+r.String()+"`") {
			t.Errorf("reason %v is not documented", r)
		}
	}
}
