package tun

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"strait.dev/strait/gateway"
	"strait.dev/strait/nodeprobe"
	"strait.dev/strait/underlay"
)

// restateBatch is how many nodes are told a state with one system call.
const restateBatch = 64

// nodeState is the state that nodes are told: whether a link forwards. Safe for concurrent use.
type nodeState struct {
	gateway *gateway.Gateway
	overlay *Overlay
	links   *linkList
	leaving atomic.Bool // this gateway is shutting down

	mu sync.Mutex // held while the state is determined
}

// update determines the state. A change is told at once.
func (s *nodeState) update(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state := nodeprobe.NoLinks
	switch {
	case s.leaving.Load():
		state = nodeprobe.Leaving
	case slices.ContainsFunc(s.links.all(), func(l *Link) bool { alive, _ := l.alive(now); return alive }):
		state = nodeprobe.LinksUp
	}
	if s.gateway.SetState(state, time.Now().Add(clockPause)) {
		batch := underlay.NewBatch(restateBatch)
		batch.NeverWait() // a node that this does not reach probes again soon
		s.gateway.Restate(time.Now(), func(r gateway.Result) {
			s.overlay.send(s.overlay.tapping.now.Load(), batch, &r, r.AnswerHeader, r.Answer)
		})
		batch.Flush()
	}
}
