package nodehelper

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"strait.dev/strait/internal/health"
	"strait.dev/strait/k8s/api/v1alpha1"
)

// stuckTimeout is the time without progress after which the liveness probe fails. The
// helper evaluates its objects at least once a minute, and its requests to the API server
// have a timeout.
const stuckTimeout = 5 * time.Minute

// state is the health of the helper. It is safe for concurrent use.
type state struct {
	pulse   health.Pulse
	last    atomic.Pointer[v1alpha1.NodeAttachmentStatus] // nil before all objects were read
	links   atomic.Pointer[map[string]string]             // gateways by link; nil before all objects were read
	reports reports
}

// serve serves liveness, readiness and metrics. Ready means that the desired state was sent
// to the kernel. Answers of gateways are not required: the helper cannot influence them,
// and they must not block a rolling upgrade.
func (h *helper) serve() (*health.Server, error) {
	h.state.reports = newReports()
	metrics := health.NewRegistry()
	// A metrics reader knows the process by its address only; the label names its node.
	prometheus.WrapRegistererWith(prometheus.Labels{"node": h.Node}, metrics).
		MustRegister(h, h.state.reports.repairs, h.state.reports.refusals)
	served, err := health.Serve(health.Options{
		Listen: h.Listen,
		Alive:  func() error { return h.state.pulse.Missing(time.Now(), stuckTimeout) },
		Ready: func() error {
			if h.state.last.Load() == nil {
				return errors.New("not all objects have been read yet; check that the API server answers and that the helper may read them")
			}
			return nil
		},
		Metrics: metrics,
		Log:     h.Log,
	})
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	return served, nil
}
