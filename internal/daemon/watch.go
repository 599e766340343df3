package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"strait.dev/strait/config"
)

// watchInterval is how often the files are checked. Polling is cheaper than supporting every way in which an editor, a
// ConfigMap mount or a symlink replaces a file.
const watchInterval = time.Second

// watchedFiles returns the configuration file, first, and the key files that it names.
func watchedFiles(path string, c *config.Gateway) []string {
	files := []string{path}
	for _, f := range keyFiles(&c.WireGuard) {
		files = append(files, f.path)
	}
	return files
}

// watch is a Watch whose set of files may change. Not for concurrent use.
type watch struct {
	changes chan<- struct{}
	log     *slog.Logger
	files   []string
	stop    context.CancelFunc // nil before the first files
	done    sync.WaitGroup
}

// follow replaces the watched files. applied is their fingerprint when they were applied.
func (w *watch) follow(files []string, applied string) {
	if slices.Equal(w.files, files) {
		return
	}
	w.end()
	w.files = files
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	w.done.Go(func() { watchSince(ctx, files, applied, w.changes, w.log) })
}

func (w *watch) end() {
	if w.stop != nil {
		w.stop()
		w.done.Wait()
	}
}

// Watch reports changes of files until ctx ends, once they have been stable for one interval, so that a file that is being
// written is not read half. For a directory, changes are added and removed names. changes must have capacity for one change.
func Watch(ctx context.Context, files []string, changes chan<- struct{}, log *slog.Logger) {
	watchSince(ctx, files, fingerprint(files), changes, log)
}

// watchSince is Watch with the fingerprint of the last reported change.
func watchSince(ctx context.Context, files []string, applied string, changes chan<- struct{}, log *slog.Logger) {
	last := applied
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := fingerprint(files)
		if now == last && now != applied {
			applied = now
			log.Debug("a watched file changed", "files", files)
			select {
			case changes <- struct{}{}:
			default: // a waiting change covers this one too
			}
		}
		last = now
	}
}

// fingerprint identifies the state of files: which files the names refer to, their sizes, and modification times. Contents
// may be megabytes, too much to read every second. A file that cannot be read counts as missing.
func fingerprint(files []string) string {
	var b strings.Builder
	for _, f := range files {
		info, err := os.Stat(f) // follows symlinks
		if err != nil {
			b.WriteString("none ") // the reload reports the error
			continue
		}
		inode := uint64(0)
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			inode = s.Ino
		}
		fmt.Fprintf(&b, "%d %d %d ", inode, info.Size(), info.ModTime().UnixNano())
	}
	return b.String()
}
