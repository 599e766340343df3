package wait

import (
	"fmt"
	"runtime"
	"testing"
	"time"
)

func TestUntilReturnsAsSoonAsTheConditionHolds(t *testing.T) {
	polls := 0
	Until(t, "it has been polled three times", func() bool { polls++; return polls == 3 })
	if polls != 3 {
		t.Errorf("polled %d times, want 3", polls)
	}
}

// limited is a test whose binary times out at limit.
type limited struct {
	testing.TB
	limit time.Time
	said  string
}

func (e *limited) Helper()                     {}
func (e *limited) Deadline() (time.Time, bool) { return e.limit, true }
func (e *limited) Fatalf(format string, args ...any) {
	e.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestUntilNamesTheConditionAndLeavesTimeForOtherTests(t *testing.T) {
	e, ended := &limited{TB: t, limit: time.Now().Add(reserve + 100*time.Millisecond)}, make(chan struct{})
	go func() {
		defer close(ended)
		Until(e, "the link is up", func() bool { return false })
	}()
	<-ended
	if want := "half of the test binary's remaining time is over, and it is still not true that the link is up"; e.said != want {
		t.Errorf("got %q, want %q", e.said, want)
	}
}

func TestUntilTakesHalfOfTheTimeLeft(t *testing.T) {
	left := time.Hour
	limit := time.Until(deadline(&limited{TB: t, limit: time.Now().Add(left + reserve)}))
	if limit > left/2 || limit < left/2-time.Minute {
		t.Errorf("with %v left Until gives up after %v, want half", left, limit)
	}
}
