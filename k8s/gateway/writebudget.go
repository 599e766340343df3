package gateway

import (
	"context"
	"maps"
	"sync"
	"time"

	"strait.dev/strait/internal/ratelimit"
)

// The remote cluster decides how often its exports change. Everything that the Peering permits
// may be written at once; afterwards the API server has at most this to write for it.
const (
	bytesPerSecond  = 64 << 10 // of records, as merge.Size counts them
	writesPerSecond = 20
	// rewriteInterval is the interval of writes of one Service, after rewriteBurst writes.
	rewriteInterval = time.Second
	rewriteBurst    = 3
	// shortTime is for how long after a write had to wait the budget counts as short.
	shortTime = 30 * time.Second
)

// writeBudget limits the requests that write the ReceivedServices of a Peering. It survives
// what makes a receiver begin again, which the remote cluster may cause too. The zero value
// is ready for use. It is safe for concurrent use.
type writeBudget struct {
	mu            sync.Mutex
	bytes, writes ratelimit.Bucket
	rewrites      map[string]*ratelimit.Bucket // by name of the object; those not listed are full
	waited        time.Time                    // when a write last waited for bytes or writes
}

// wait waits until a write of an object of a size is permitted, and counts it. It returns the
// error of ctx if that ends before: then nothing is counted.
func (b *writeBudget) wait(ctx context.Context, name string, bytes int, policy *importPolicy) error {
	for {
		wait := b.take(name, bytes, policy, time.Now())
		if wait == 0 {
			return ctx.Err()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

// take counts a write, or returns how long to wait before asking again.
func (b *writeBudget) take(name string, bytes int, policy *importPolicy, now time.Time) time.Duration {
	const perByte, perWrite = time.Second / bytesPerSecond, time.Second / writesPerSecond
	b.mu.Lock()
	defer b.mu.Unlock()
	shared := max(b.bytes.Wait(now, perByte, max(policy.maxBytes, 1)), b.writes.Wait(now, perWrite, max(policy.maxServices, 1)))
	if shared > 0 {
		b.waited = now
	}
	if wait := max(shared, b.rewrite(name).Wait(now, rewriteInterval, rewriteBurst)); wait > 0 {
		return wait
	}
	maps.DeleteFunc(b.rewrites, func(_ string, of *ratelimit.Bucket) bool { return of.Full(now) })
	of := b.rewrite(name)
	of.Spend(now, rewriteInterval, 1)
	b.rewrites[name] = of
	b.bytes.Spend(now, perByte, bytes)
	b.writes.Spend(now, perWrite, 1)
	return 0
}

// rewrite returns the bucket of an object. The caller holds b.mu.
func (b *writeBudget) rewrite(name string) *ratelimit.Bucket {
	if of := b.rewrites[name]; of != nil {
		return of
	}
	if b.rewrites == nil {
		b.rewrites = make(map[string]*ratelimit.Bucket)
	}
	return new(ratelimit.Bucket)
}

// waits reports whether an object was written so recently that another write has to wait.
func (b *writeBudget) waits(name string, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rewrite(name).Wait(now, rewriteInterval, rewriteBurst) > 0
}

func (b *writeBudget) short(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.waited.IsZero() && now.Sub(b.waited) < shortTime
}
