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

// stuckTimeout is how long a helper may do nothing until it should be started anew. It looks at
// its objects once a minute at least, and its requests to the API server have an end.
const stuckTimeout = 5 * time.Minute

// state is how the helper is, for whoever watches over it. It may be used concurrently.
type state struct {
	pulse   health.Pulse
	last    atomic.Pointer[v1alpha1.NodeAttachmentStatus] // nil before all objects were read
	reports reports
}

// serve answers whether the helper lives and is ready, and its metrics. Ready means that
// the kernel was told what the objects ask for. Whether gateways answer is no part of it:
// that is not the helper's doing, and no reason to hold up an upgrade of others.
func (h *helper) serve() (*health.Server, error) {
	h.state.reports = newReports()
	metrics := health.NewRegistry()
	// Whoever reads metrics knows the process by an address, and not by its node.
	prometheus.WrapRegistererWith(prometheus.Labels{"node": h.Node}, metrics).
		MustRegister(h, h.state.reports.repairs, h.state.reports.refusals)
	served, err := health.Serve(health.Options{
		Listen: h.Listen,
		Alive:  func() error { return h.state.pulse.Missing(time.Now(), stuckTimeout) },
		Ready: func() error {
			if h.state.last.Load() == nil {
				return errors.New("not all objects have been read yet; see whether the API server answers, and whether the helper may read them")
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
