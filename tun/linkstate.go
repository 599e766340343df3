package tun

import (
	"sync"
	"time"

	"strait.dev/strait/link"
)

// linkState is what this end knows of a link: whether it is up, what its path carries, and when its last packet arrived. It
// depends only on its calls and the times passed to them. Safe for concurrent use. The zero value is a link that is down.
type linkState struct {
	mu       sync.Mutex
	prober   link.Prober
	path     link.Path
	received time.Time // when the last authenticated packet of the far end arrived
	heard    time.Time // received at the last tick
	counted  uint64    // bytes that WireGuard had received when last asked, at least 1; 0 = while up
}

// fit returns the fitness of the link.
func (s *linkState) fit(now time.Time) link.Fitness {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prober.Fit(now)
}

// copies returns what the prober and the path know now.
func (s *linkState) copies() (link.Prober, link.Path) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.prober, s.path
}

// note notes when the last packet arrived; zero: none has. s.mu is held.
func (s *linkState) note(received time.Time) {
	if received.After(s.received) {
		s.received = received
	}
}

// tick returns the probe that is due.
func (s *linkState) tick(received time.Time, mtu int, leaving bool, now time.Time) link.Probe {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(received)
	since, silence := s.received.After(s.heard), link.MaxSilence
	s.heard = s.received
	if !s.received.IsZero() {
		silence = max(now.Sub(s.received), 0)
	}
	return s.prober.Tick(since, silence, mtu, leaving, now)
}

// taken is what a probe of the far end meant.
type taken struct {
	changed bool          // the fitness of the link is another than before
	leaves  bool          // the far end says for the first time that it is about to end the link
	rtt     time.Duration // a round trip; 0: it gave none
}

// took processes the probe of a tick of the far end.
func (s *linkState) took(q link.Probe, now time.Time) (t taken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, left := s.prober.Fit(now), s.prober.Last.Kind == link.Leaving
	if s.prober.Take(q, now) {
		t.rtt = s.prober.RTT
	}
	fit := s.prober.Fit(now)
	if before == link.Down && fit != link.Down {
		s.path.Restart()
	}
	t.changed = fit != before
	t.leaves = s.prober.Last.Kind == link.Leaving && !left
	return t
}

// askPath returns the sizes of the probes of the path that are due, 0 for none. ceiling is the MTU of this end's interfaces.
func (s *linkState) askPath(ceiling int, now time.Time) (sizes [2]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.prober.Fit(now) == link.Down {
		return sizes
	}
	target := ceiling
	if far := int(s.prober.Last.MTU); far != 0 {
		target = min(target, max(far, link.MinMTU))
	}
	sizes[0], sizes[1] = s.path.Ask(target, ceiling, 2*s.prober.RTT+link.Interval, now)
	return sizes
}

// crossed notes that a packet of a size has reached the far end.
func (s *linkState) crossed(size int, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.path.Answer(size, now)
}

// heardFrom reports whether the link is up, whether the far end has ever sent a probe, and when its last packet arrived.
// received is when the last one arrived that was not counted by countBytes.
func (s *linkState) heardFrom(received, now time.Time) (up, probes bool, last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.note(received)
	up = s.prober.Fit(now) != link.Down
	if up {
		s.counted = 0
	}
	return up, s.prober.Last.Kind != 0, s.received
}

// countBytes notes how many bytes of authenticated messages, handshakes and keepalives included, have arrived while the
// link is down. It returns when the last packet arrived.
func (s *linkState) countBytes(bytes uint64, now time.Time) (last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counted != 0 && bytes > s.counted {
		s.received = now
	}
	s.counted = max(bytes, 1)
	return s.received
}
