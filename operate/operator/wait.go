package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Waiting configures how a command waits.
type Waiting struct {
	For      time.Duration // at most
	Every    time.Duration // poll interval; 0: one second
	Progress *Progress
	DryRun   bool // do not wait: return ErrDryRun
}

// TimeoutError reports what is still missing after a timeout.
type TimeoutError struct {
	After   time.Duration
	Missing string // what, with the remedy
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("not after %v: %s", e.After, e.Missing)
}

// Until polls until nothing is missing or the timeout. An API server that does not answer
// is retried. It polls at least once, and a poll that has begun is not interrupted by the
// timeout.
func (w Waiting) Until(ctx context.Context, look func(context.Context) (missing string, err error)) error {
	if w.DryRun {
		return ErrDryRun
	}
	every := w.Every
	if every == 0 {
		every = time.Second
	}
	defer w.Progress.Done()
	late := time.NewTimer(w.For)
	defer late.Stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		missing, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && !isTemporary(err):
			return err
		case err != nil:
			missing = err.Error()
		case missing == "":
			return nil
		}
		w.Progress.Say(missing)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-late.C:
			return &TimeoutError{w.For, missing}
		case <-tick.C:
		}
	}
}

// isTemporary reports whether an error may resolve without intervention.
func isTemporary(err error) bool {
	var at net.Error
	return errors.As(err, &at) || errors.Is(err, context.DeadlineExceeded) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}
