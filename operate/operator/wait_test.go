package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAWaitEndsWithWhatIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told strings.Builder
		w := Waiting{For: 10 * time.Second, Progress: NewProgress(&told, nil)}
		looks := 0
		err := w.Until(t.Context(), func(context.Context) (string, error) {
			looks++
			return fmt.Sprintf("step %d of 4", min(looks/3, 3)), nil
		})
		var late *TimeoutError
		if !errors.As(err, &late) || err.Error() != "not after 10s: step 3 of 4" {
			t.Errorf("ended with %v", err)
		}
		if want := "step 0 of 4\nstep 1 of 4\nstep 2 of 4\nstep 3 of 4\n"; told.String() != want {
			t.Errorf("told %q, want %q", told.String(), want)
		}
	})
}

func TestAWaitOutlivesAnAPIServerThatIsAwayAndNoOtherError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := Waiting{For: time.Minute}
		looks := 0
		must(t, w.Until(t.Context(), func(context.Context) (string, error) {
			if looks++; looks < 5 {
				return "", fmt.Errorf("away: %w", context.DeadlineExceeded)
			}
			return "", nil
		}))
		wrong := errors.New("wrong")
		if err := w.Until(t.Context(), func(context.Context) (string, error) { return "", wrong }); !errors.Is(err, wrong) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestAWaitEndsWhenItIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err := Waiting{For: time.Minute}.Until(ctx, func(context.Context) (string, error) { return "something", nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
	})
}

func TestATerminalHasOneLine(t *testing.T) {
	var b strings.Builder
	p := NewProgress(&b, &b)
	p.Say("one")
	p.Say("one")
	p.Say(strings.Repeat("ä", 100))
	p.Done()
	p.Done()
	want := "\r\x1b[Kone\r\x1b[K" + strings.Repeat("ä", 77) + "…\r\x1b[K"
	if b.String() != want {
		t.Errorf("wrote %q, want %q", b.String(), want)
	}
	var noPeeringsText *Progress
	noPeeringsText.Say("nothing")
	noPeeringsText.Done()
}
