package daemon

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"strait.dev/strait/internal/ratelimit"
)

// What strangers can make the gateway say is bounded: lines that begin alike share a
// bucket of quietBurst, which fills by one in quietEvery.
const (
	quietBurst   = 20
	quietEvery   = 3 * time.Second
	quietBuckets = 64
	// quietPrefix is how much of a message tells its kind, bytes: behind it come keys and
	// addresses.
	quietPrefix = 24
)

// quiet is a handler that leaves lines out when too many of their kind come, and counts
// them. Lines of level debug pass: whoever asks for them wants them all. Safe for
// concurrent use.
type quiet struct {
	slog.Handler
	*quietState
}

type quietState struct {
	seed    maphash.Seed
	mu      sync.Mutex
	buckets [quietBuckets]ratelimit.Bucket
	leftOut atomic.Uint64
}

func newQuiet(h slog.Handler) quiet {
	return quiet{h, &quietState{seed: maphash.MakeSeed()}}
}

// Handle implements slog.Handler.
func (q quiet) Handle(ctx context.Context, r slog.Record) error {
	if r.Level > slog.LevelDebug && !q.allow(r.Message, r.Time) {
		q.leftOut.Add(1)
		return nil
	}
	return q.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler {
	return quiet{q.Handler.WithAttrs(attrs), q.quietState}
}

// WithGroup implements slog.Handler.
func (q quiet) WithGroup(name string) slog.Handler {
	return quiet{q.Handler.WithGroup(name), q.quietState}
}

// allow takes a line out of its bucket, if there is one left.
func (q *quietState) allow(message string, now time.Time) bool {
	b := &q.buckets[maphash.String(q.seed, message[:min(len(message), quietPrefix)])%quietBuckets]
	q.mu.Lock()
	defer q.mu.Unlock()
	return b.Take(now, quietEvery, quietBurst)
}
