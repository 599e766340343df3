// Package budget limits what an agent writes to the API server of its cluster for the other one,
// which decides how often pods and objects change. Pure: the caller passes the time.
package budget

import (
	"sync"
	"time"

	"strait.dev/strait/internal/ratelimit"
	"strait.dev/strait/offload/protocol"
)

// Everything that a Peering may store can be written at once. Afterwards the API server has at most
// this to write for it.
const (
	burstBytes        = protocol.MaxRecords + protocol.MaxCopies
	bytesPerSecond    = 64 << 10
	burstRequests     = 4 * protocol.MaxPods // a record, a twin, its UID, and its end
	requestsPerSecond = 20

	// Events stay for an hour by default.
	burstEvents = 2 * protocol.MaxPods
	eventEvery  = 5 * time.Second

	tellEvery = time.Minute
)

// Writes is the budget of one agent. The zero value is ready for use. It is safe for concurrent
// use.
type Writes struct {
	mu              sync.Mutex
	bytes, requests ratelimit.Bucket
	events          ratelimit.Bucket
	told            ratelimit.Bucket // log lines
}

// Take counts a request that writes so many bytes, and returns 0; or it returns how long to wait
// before asking again.
func (w *Writes) Take(bytes int, now time.Time) (wait time.Duration) {
	const perByte, perRequest = time.Second / bytesPerSecond, time.Second / requestsPerSecond
	w.mu.Lock()
	defer w.mu.Unlock()
	if wait = max(w.bytes.Wait(now, perByte, burstBytes), w.requests.Wait(now, perRequest, burstRequests)); wait > 0 {
		return wait
	}
	w.bytes.Spend(now, perByte, bytes)
	w.requests.Spend(now, perRequest, 1)
	return 0
}

// Event reports whether an event about a pod may be written, and counts it.
func (w *Writes) Event(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.events.Take(now, eventEvery, burstEvents)
}

// Tell reports whether it is time for a log line that writes wait: at most once a minute.
func (w *Writes) Tell(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told.Take(now, tellEvery, 1)
}
