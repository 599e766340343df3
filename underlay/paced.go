//go:build linux

package underlay

import (
	"sync/atomic"
	"time"
)

// paceInterval is how often a paced queue is read. At most that much later is a probe answered; a node takes 100 ms without an
// answer for a loss.
const paceInterval = 20 * time.Millisecond

// paced says which part of the datagrams a socket paces.
type paced struct {
	wanted atomic.Bool // what on is to be
	due    atomic.Bool // the paced queue is to be read
	on     bool        // the kernel puts probes in the paced queue; protected by classes.mu
}

// Pace says whether the probes of nodes (package nodeprobe) may wait for up to 20 ms, to be received together. A reader with little
// else to do spends most of its time on waking up, once for each of them. Other datagrams do not wait. The kernel puts the probes
// in a queue of their own, which a ticker reads instead of a Poller. Only for a socket with the program BySource; a kernel that
// cannot select queues paces nothing.
//
// The Receiver begins and ends that, with one of its next batches.
func (s *Socket) Pace(on bool) { s.classes.paced.wanted.Store(on) }

// setPaced makes the kernel put probes in the paced queue, or no longer, and reports whether it could. What it has put in another
// queue before is received by turns, as after an overload.
func (k *classes) setPaced(now time.Time) bool {
	next := draining
	if k.phase == sorting {
		next = sorting
	}
	if !k.direct(next, k.paced.wanted.Load()) {
		return false
	}
	k.watchQueues(true)
	if next == draining {
		k.calm = now
	}
	return true
}

// pacedQueue returns the queue of probes while nothing is sorted: the first urgent one, or nil if it is not open. The program has
// urgent classes.
func (k *classes) pacedQueue() *Socket {
	if all := k.queues.Load(); all != nil {
		return all.sockets[k.program.ordinary()]
	}
	return nil
}

// tick makes the Receiver read the paced queue at intervals, until a Poller watches it again or it is closed.
func (k *classes) tick() {
	ticker := time.NewTicker(paceInterval)
	defer ticker.Stop()
	for !k.queued.Load() && k.pacedQueue() != nil {
		k.paced.due.Store(true)
		if p := k.first.watcher.Load(); p != nil {
			p.Wake()
		}
		<-ticker.C
	}
}

// takePaced receives from the paced queue if that is due, and returns the number of messages.
func (k *classes) takePaced(r *Receiver) (messages int, err error) {
	if !k.paced.due.Load() || k.queued.Load() {
		return 0, nil
	}
	queue := k.pacedQueue()
	if queue == nil { // closed meanwhile
		return 0, nil
	}
	k.paced.due.Store(false)
	messages, err = r.take(queue, 0, ReceiveBatch)
	if messages == ReceiveBatch {
		k.paced.due.Store(true) // more may wait
	}
	return messages, err
}
