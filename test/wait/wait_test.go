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

// expired is a test whose binary has reached its timeout.
type expired struct {
	testing.TB
	said string
}

func (e *expired) Helper()                     {}
func (e *expired) Deadline() (time.Time, bool) { return time.Now(), true }
func (e *expired) Fatalf(format string, args ...any) {
	e.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestUntilNamesTheConditionBeforeTheTestBinaryTimesOut(t *testing.T) {
	e, ended := &expired{TB: t}, make(chan struct{})
	go func() {
		defer close(ended)
		Until(e, "the link is up", func() bool { return false })
	}()
	<-ended
	if want := "the test binary is about to time out, and it is still not true that the link is up"; e.said != want {
		t.Errorf("got %q, want %q", e.said, want)
	}
}
