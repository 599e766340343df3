package operator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Waiting is how a command waits for others.
type Waiting struct {
	For      time.Duration // at most
	Every    time.Duration // how often to look; 0: every second
	Progress *Progress
	DryRun   bool // do not wait: return ErrDryRun
}

// TimeoutError says what is missing still.
type TimeoutError struct {
	After   time.Duration
	Missing string // what, and what to do about it
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("not after %v: %s", e.After, e.Missing)
}

// until looks again and again until nothing is missing. An API server that does not
// answer is waited for like anything else. It looks once at least, and a look that has
// begun when time is up is not cut short.
func (w Waiting) until(ctx context.Context, look func(context.Context) (missing string, err error)) error {
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

// isTemporary reports whether an error may go away by itself.
func isTemporary(err error) bool {
	var at net.Error
	return errors.As(err, &at) || errors.Is(err, context.DeadlineExceeded) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
}
