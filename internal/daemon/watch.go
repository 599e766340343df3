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

// watchInterval is how often the files are looked at. That costs less than knowing
// all the ways in which an editor, a mount of a ConfigMap or a symlink replaces one.
const watchInterval = time.Second

// watchedFiles are the configuration file and the key files that it names.
func watchedFiles(path string, c *config.Gateway) []string {
	files := []string{path, c.WireGuard.PrivateKeyFile}
	for _, p := range c.WireGuard.Peers {
		for _, key := range []string{p.PrivateKeyFile, p.PresharedKeyFile} {
			if key != "" {
				files = append(files, key)
			}
		}
	}
	return files
}

// watch is a Watch of files that may become others. Not for concurrent use.
type watch struct {
	changes chan<- struct{}
	log     *slog.Logger
	files   []string
	stop    context.CancelFunc // nil before the first files
	done    sync.WaitGroup
}

// follow watches these files from now on.
func (w *watch) follow(files []string) {
	if slices.Equal(w.files, files) {
		return
	}
	w.end()
	w.files = files
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	now := fingerprint(files) // not by the goroutine: it would miss what changes before it runs
	w.done.Go(func() { watchSince(ctx, files, now, w.changes, w.log) })
}

// end stops watching and waits for it.
func (w *watch) end() {
	if w.stop != nil {
		w.stop()
		w.done.Wait()
	}
}

// Watch tells of changes of files until ctx ends, once they have held still for
// one interval: a file that is being written is not read half. For a folder, changes
// are the names in it that come and go. One change may wait in changes, so that needs
// room for it.
func Watch(ctx context.Context, files []string, changes chan<- struct{}, log *slog.Logger) {
	watchSince(ctx, files, fingerprint(files), changes, log)
}

// watchSince is Watch where the last change that was told of had this fingerprint.
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
			default: // one is waiting already, and will find this one too
			}
		}
		last = now
	}
}

// fingerprint changes when a file does: it is which files the names stand for,
// their sizes, and when they were written. Their contents may be megabytes, too
// much to read every second. A file that cannot be looked at counts as none.
func fingerprint(files []string) string {
	var b strings.Builder
	for _, f := range files {
		info, err := os.Stat(f) // of the file that a symlink leads to
		if err != nil {
			b.WriteString("none ") // what is wrong with it, a reload will say
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
