package daemon

import (
	"log/slog"
	"runtime/debug"
	"testing"

	"strait.dev/strait/config"
)

// Not parallel: the setting is the process's.
func TestGarbageIsLimitedUnlessTheEnvironmentSaysHow(t *testing.T) {
	for given, want := range map[string]int{"": gcPercent, "300": 300} {
		t.Setenv("GOGC", given)
		before := debug.SetGCPercent(300) // as the runtime does with the variable
		p, err := Open(config.ListenAddress{}, Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if got := debug.SetGCPercent(before); got != want {
			t.Errorf("GOGC=%q: %d %%, want %d", given, got, want)
		}
	}
}
