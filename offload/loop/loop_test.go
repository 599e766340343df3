package loop

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestALoopDecidesAtOnceAfterChangesAndWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := New(), time.Now()
		var at []time.Duration
		ctx, end := context.WithCancel(t.Context())
		go func() {
			time.Sleep(2500 * time.Millisecond)
			for range 10 { // are decided on together
				l.Wake()
			}
		}()
		l.Run(ctx, func(context.Context) time.Duration {
			at = append(at, time.Since(began))
			switch len(at) {
			case 1:
				return time.Second
			case 2:
				return 0 // until something changes
			case 3:
				return time.Hour
			}
			end()
			return 0
		})
		want := []time.Duration{settle, time.Second + 2*settle, 2500*time.Millisecond + settle, time.Hour + 2500*time.Millisecond + 2*settle}
		if !slices.Equal(at, want) {
			t.Errorf("decided after %v, want %v", at, want)
		}
	})
}

func TestALoopEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		calls := 0
		New().Run(ctx, func(context.Context) time.Duration { calls++; return 0 })
		if calls != 1 {
			t.Errorf("%d calls", calls)
		}
	})
}

func TestAnAgentBeginsWhenItsAPIServerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, tries := time.Now(), 0
		try := func(ctx context.Context) error {
			if tries++; tries < 3 {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		var failures []error
		if !Begin(t.Context(), time.Minute, try, func(err error) { failures = append(failures, err) }) || len(failures) != 2 || time.Since(began) != 2*(time.Minute+Retry) {
			t.Errorf("after %v and the failures %v", time.Since(began), failures)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if Begin(ctx, time.Minute, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, func(err error) { t.Error(err) }) {
			t.Error("it began although its context ended")
		}
	})
}
