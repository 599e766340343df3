package controller

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"strait.dev/strait/internal/health"
)

// stuckTimeout is the time without progress after which the liveness probe fails. A pass
// over 5 000 nodes takes a minute or two, and a request to an API server that has
// disappeared ends within one minute.
const stuckTimeout = 10 * time.Minute

// state is the health of the controller. It is safe for concurrent use.
type state struct {
	pulse         health.Pulse
	synced, leads atomic.Bool
	passes        passes
}

func (s *state) passEnded(begun, ended time.Time, err error) {
	s.pulse.Beat(ended)
	s.passes.observe(ended.Sub(begun), err)
}

// serve serves liveness, readiness and metrics. A controller that waits for the lease is
// ready: it could take over at once.
func (c *controller) serve(listen string) (*health.Server, error) {
	c.state.passes = newPasses()
	served, err := health.Serve(health.Options{
		Listen: listen,
		Alive:  func() error { return c.state.pulse.Missing(time.Now(), stuckTimeout) },
		Ready: func() error {
			if !c.state.synced.Load() {
				return errors.New("not all objects have been read yet; check that the API server answers and that the controller may read them")
			}
			return nil
		},
		Metrics: health.NewRegistry(c, c.state.passes.total, c.state.passes.duration),
		Log:     c.log,
	})
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	return served, nil
}
