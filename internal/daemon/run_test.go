package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"strait.dev/strait/test/logbuffer"
)

func TestAnAddressInUseIsWaitedForThreeTimesAsLongAsADrainTakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		busy  time.Duration // how long the address is in use
		stop  time.Duration // when the process is told to end; 0: never
		takes time.Duration
		err   error
	}{
		{"it becomes free", Drain, 0, Drain, nil},
		{"it is free", 0, 0, 0, nil},
		{"it never becomes free", time.Hour, 0, 3*Drain + Drain/10, syscall.EADDRINUSE},
		{"the process is told to end", time.Hour, Drain / 4, Drain / 4, syscall.EADDRINUSE},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, stop := time.Now(), make(chan os.Signal)
				if c.stop > 0 {
					time.AfterFunc(c.stop, func() { close(stop) })
				}
				var log logbuffer.Buffer
				err := patiently(stop, slog.New(slog.NewTextHandler(&log, nil)), func() error {
					if time.Since(began) < c.busy {
						return syscall.EADDRINUSE
					}
					return nil
				})
				if took := time.Since(began); !errors.Is(err, c.err) || took != c.takes {
					t.Errorf("%v after %v, want %v after %v", err, took, c.err, c.takes)
				}
				if n := strings.Count(log.String(), "waiting for an address"); n > 1 || (n == 1) != (c.busy > 0) {
					t.Errorf("logged %d times that it waits", n)
				}
			})
		})
	}
}

func TestOtherErrorsOfTheStartAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	if err := patiently(nil, slog.New(slog.DiscardHandler), func() error { return context.Canceled }); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
