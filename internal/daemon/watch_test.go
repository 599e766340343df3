package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// told is whether a change waits.
func told(changes <-chan struct{}) bool {
	select {
	case <-changes:
		return true
	default:
		return false
	}
}

// letPass lets time pass, and what is due happen.
//
//strait:virtualtime
func letPass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestAFileThatIsBeingWrittenIsReportedWhenItIsStable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	synctest.Test(t, func(t *testing.T) {
		changes := make(chan struct{}, 1)
		go Watch(t.Context(), []string{path}, changes, slog.New(slog.DiscardHandler))
		letPass(10*watchInterval + watchInterval/2)
		if told(changes) {
			t.Error("tells of a change of a file that does not exist")
		}
		for size := range 5 { // each part is in it before the next look
			if err := os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o600); err != nil {
				t.Fatal(err)
			}
			if letPass(watchInterval); told(changes) {
				t.Errorf("told after %d parts, while it is still being written", size+1)
			}
		}
		if letPass(watchInterval); !told(changes) {
			t.Error("not told one interval after the last part")
		}
		if letPass(10 * watchInterval); told(changes) {
			t.Error("told again, though nothing changed")
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if letPass(2 * watchInterval); !told(changes) {
			t.Error("not told that the file is gone")
		}
	})
}

// The file changes before the watching goroutine runs, or while the configuration is applied: at the start, that can take
// seconds.
func TestAChangeSinceTheFilesWereReadIsNotMissed(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		files := []string{filepath.Join(t.TempDir(), "file")}
		synctest.Test(t, func(t *testing.T) {
			changes := make(chan struct{}, 1)
			w := &watch{changes: changes, log: slog.New(slog.DiscardHandler)}
			defer w.end()
			read := fingerprint(files)
			if late {
				w.follow(files, read)
			}
			if err := os.WriteFile(files[0], nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if !late {
				w.follow(files, read)
			}
			if letPass(2 * watchInterval); !told(changes) {
				t.Error("not told of the change")
			}
		})
	}
}
