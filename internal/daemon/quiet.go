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

// Log lines that the remote cluster and unauthenticated senders can cause are rate-limited: lines with the same prefix share a
// bucket of quietBurst, refilled by one every quietEvery.
const (
	quietBurst   = 20
	quietEvery   = 3 * time.Second
	quietBuckets = 64
	// quietPrefix is the length in bytes of a message before keys and addresses.
	quietPrefix = 24
)

// quiet is a handler that suppresses lines when too many of one kind arrive, and counts them. Debug lines are never suppressed.
// Safe for concurrent use.
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

func (q *quietState) allow(message string, now time.Time) bool {
	b := &q.buckets[maphash.String(q.seed, message[:min(len(message), quietPrefix)])%quietBuckets]
	q.mu.Lock()
	defer q.mu.Unlock()
	return b.Take(now, quietEvery, quietBurst)
}
