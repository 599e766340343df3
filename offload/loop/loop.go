// Package loop is the loop of an agent: it decides after each change, and at the time that the last
// decision names.
package loop

import (
	"context"
	"time"
)

// Retry is how long an agent waits after a failed request.
const Retry = time.Second

const settle = 50 * time.Millisecond // changes within this time are decided on together

// Loop is a loop that changes wake. It is safe for concurrent use.
type Loop struct{ woken chan struct{} }

// New returns a loop.
func New() *Loop { return &Loop{make(chan struct{}, 1)} }

// Wake makes the loop decide again. It does not block.
func (l *Loop) Wake() {
	select {
	case l.woken <- struct{}{}:
	default:
	}
}

// WakeWhen wakes the loop when ready has become true, as caches do that were empty.
func (l *Loop) WakeWhen(ctx context.Context, ready func() bool) {
	for !ready() {
		if !pause(ctx, settle) {
			return
		}
	}
	l.Wake()
}

// Run calls decide at once and after each change, and again after the time that it returns; 0: not
// without a change. It ends with ctx.
func (l *Loop) Run(ctx context.Context, decide func(context.Context) (again time.Duration)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.woken:
		case <-timer.C:
		}
		if !pause(ctx, settle) {
			return
		}
		select {
		case <-l.woken: // by a change that is decided on now
		default:
		}
		if again := decide(ctx); again != 0 {
			timer.Reset(again)
		}
	}
}

// Begin calls try, which may take patience, until it succeeds, and failed after each error. It
// returns false if ctx ends before.
func Begin(ctx context.Context, patience time.Duration, try func(context.Context) error, failed func(error)) bool {
	for {
		within, cancel := context.WithTimeout(ctx, patience)
		err := try(within)
		cancel()
		if err == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		failed(err)
		if !pause(ctx, Retry) {
			return false
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
