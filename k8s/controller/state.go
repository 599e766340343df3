package controller

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"strait.dev/strait/internal/health"
)

// stuckTimeout is how long a controller may do nothing until it should be started anew. A pass
// of 5 000 nodes takes a minute or two, and a request to an API server that vanished ends
// within one.
const stuckTimeout = 10 * time.Minute

// state is how the controller is, for whoever watches over it. It may be used
// concurrently.
type state struct {
	pulse         health.Pulse
	synced, leads atomic.Bool
	passes        passes
}

// passEnded notes the end of a pass that was not broken off.
func (s *state) passEnded(begun, ended time.Time, err error) {
	s.pulse.Beat(ended)
	s.passes.observe(ended.Sub(begun), err)
}

// serve answers whether the controller lives and is ready, and its metrics. One that
// waits for the lease is ready: it would do the work at once.
func (c *controller) serve(listen string) (*health.Server, error) {
	c.state.passes = newPasses()
	served, err := health.Serve(health.Options{
		Listen: listen,
		Alive:  func() error { return c.state.pulse.Missing(time.Now(), stuckTimeout) },
		Ready: func() error {
			if !c.state.synced.Load() {
				return errors.New("not all objects have been read yet; see whether the API server answers, and whether the controller may read them")
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
