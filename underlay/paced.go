//go:build linux

package underlay

import (
	"time"

	"golang.org/x/sys/unix"
)

// paceInterval is how often a paced queue is read. At most that much later is a probe answered; a node takes 100 ms without an
// answer for a loss.
const paceInterval = 20 * time.Millisecond

// Pace says whether the probes of nodes (package nodeprobe) may wait for up to 20 ms, to be received together. A reader with little
// else to do spends most of its time on waking up, once for each of them. Other datagrams do not wait. The kernel puts the probes
// in a queue of their own, which a ticker reads instead of a Poller. Only for a socket with the program BySource; a kernel that
// cannot select queues paces nothing.
//
// The Receiver begins and ends that, with one of its next batches.
func (s *Socket) Pace(on bool) { s.classes.pace.Store(on) }

// setPaced makes the kernel put probes in the paced queue, or no longer, and reports whether it could. What it has put in another
// queue before is received by turns, as after an overload.
func (s *Socket) setPaced(now time.Time) bool {
	k := s.classes
	k.group.mu.Lock()
	defer k.group.mu.Unlock()
	if k.queues.Load() == nil && !s.openOthers() {
		return false
	}
	before := k.paced
	k.paced = k.pace.Load()
	if k.group.attach() != nil {
		k.paced = before
		return false
	}
	if !k.active {
		k.active, k.gathered = true, true
		s.watchQueues(true)
	}
	if k.gathered {
		k.calm = now
	}
	return true
}

// pacedQueue returns the queue of probes while nothing is sorted: the first urgent one, or nil if it is not open. The program has
// urgent classes.
func (s *Socket) pacedQueue() *Socket {
	k := s.classes
	if all := k.queues.Load(); all != nil {
		return all.sockets[k.group.classes.ordinary()]
	}
	return nil
}

// queueOrPaced returns the code that selects the paced queue for what is paced, and the first queue for the rest. group.mu is
// held.
func (s *Socket) queueOrPaced() []unix.SockFilter {
	g := s.classes.group
	return append(g.classes.skipIfPaced(1), g.number(s), g.number(s.pacedQueue()))
}

// startPace begins to read the paced queue at intervals, once all others but the first are empty, into which the kernel puts
// nothing any more.
func (s *Socket) startPace() {
	paced := s.pacedQueue()
	for _, other := range s.others() {
		if other != paced && !other.Empty() {
			return
		}
	}
	s.classes.active = false
	s.watchQueues(false)
	go s.tick()
}

// tick makes the Receiver read the paced queue at intervals, until a Poller watches it again or it is closed.
func (s *Socket) tick() {
	ticker := time.NewTicker(paceInterval)
	defer ticker.Stop()
	for !s.classes.queued.Load() && s.pacedQueue() != nil {
		s.classes.due.Store(true)
		for _, p := range s.pollers() {
			p.Wake()
		}
		<-ticker.C
	}
}

// takePaced receives from the paced queue if that is due, and returns the number of messages.
func (r *Receiver) takePaced(k *classes) (messages int, err error) {
	if !k.due.Load() || k.queued.Load() {
		return 0, nil
	}
	paced := r.socket.pacedQueue()
	if paced == nil { // closed meanwhile
		return 0, nil
	}
	k.due.Store(false)
	messages, err = r.takeTurn(paced, 0, ReceiveBatch)
	if messages == ReceiveBatch {
		k.due.Store(true) // more may wait
	}
	return messages, err
}
