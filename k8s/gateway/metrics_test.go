package gateway

import (
	"testing"

	"strait.dev/strait/internal/health"
	"strait.dev/strait/test/metricspage"
)

func TestMetricsPageIsComplete(t *testing.T) {
	metricspage.Check(t, "Gateway in Kubernetes", metricspage.Text(health.NewRegistry(newMetrics().all()...)))
}
