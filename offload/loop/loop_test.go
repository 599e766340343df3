package loop

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestALoopDecidesAtOnceAfterChangesAndWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := New(), time.Now()
		var at []time.Duration
		errEnd := errors.New("end")
		go func() {
			time.Sleep(2500 * time.Millisecond)
			for range 10 { // are decided on together
				l.Wake()
			}
		}()
		err := l.Run(t.Context(), func(context.Context) (time.Duration, error) {
			at = append(at, time.Since(began))
			switch len(at) {
			case 1:
				return time.Second, nil
			case 2:
				return 0, nil // until something changes
			case 3:
				return time.Hour, nil
			}
			return 0, errEnd
		})
		want := []time.Duration{settle, time.Second + 2*settle, 2500*time.Millisecond + settle, time.Hour + 2500*time.Millisecond + 2*settle}
		if !errors.Is(err, errEnd) || !slices.Equal(at, want) {
			t.Errorf("decided after %v, want %v; %v", at, want, err)
		}
	})
}

func TestALoopEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		calls := 0
		err := New().Run(ctx, func(context.Context) (time.Duration, error) { calls++; return 0, nil })
		if err != nil || calls != 1 {
			t.Errorf("%d calls, %v", calls, err)
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
