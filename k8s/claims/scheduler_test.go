//go:build apiserver || nightly

package claims_test

import (
	"math/rand/v2"
	"sync"
)

// scheduler puts the requests of several processes into a random order, one after the
// other: each waits until all want to send one or have ended.
type scheduler struct {
	random *rand.Rand

	mu      sync.Mutex
	changed sync.Cond
	waiting []*crashingTransport // in the order in which the processes were named; nil for one that thinks
	ended   int
	next    *crashingTransport
}

func newScheduler(random *rand.Rand, processes ...*crashingTransport) *scheduler {
	t := &scheduler{random: random, waiting: make([]*crashingTransport, len(processes))}
	t.changed.L = &t.mu
	for i, m := range processes {
		m.scheduler, m.place = t, i
	}
	return t
}

// take waits for the turn of a process.
func (t *scheduler) take(m *crashingTransport) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting[m.place] = m
	t.choose()
	for t.next != m {
		t.changed.Wait()
	}
	t.next, t.waiting[m.place] = nil, nil
}

// end takes a process out of the order.
func (t *scheduler) end(m *crashingTransport) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m.scheduler = nil
	t.ended++
	t.choose()
}

func (t *scheduler) choose() {
	var ready []*crashingTransport
	for _, m := range t.waiting {
		if m != nil {
			ready = append(ready, m)
		}
	}
	if len(ready) > 0 && len(ready)+t.ended == len(t.waiting) {
		t.next = ready[t.random.IntN(len(ready))]
		t.changed.Broadcast()
	}
}
