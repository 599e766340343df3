package fakekube

import (
	"net"
	"slices"
	"syscall"
)

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// Fail calls fault with each request before it is performed, until the function that it
// returns is called. An error of the API, made by apimachinery's errors.New..., is the
// server's answer; any other error is one of the connection; nil performs the request.
// Fault may use the server.
func (s *Server) Fail(fault func(Request) error) (stop func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fault)
	i := len(s.faults) - 1
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults = slices.Clone(s.faults)
		s.faults[i] = func(Request) error { return nil }
	}
}

func (s *Server) fault(q Request) error {
	s.mu.Lock()
	faults := s.faults
	s.mu.Unlock()
	for _, f := range faults {
		if err := f(q); err != nil {
			return err
		}
	}
	return nil
}

// Stop breaks all watches off and refuses connections until Start.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
	s.breakOff()
}

// Start ends Stop. The objects are what they were.
func (s *Server) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
	s.wake()
}

// BreakWatches breaks all watches off, as a server does that closes its connections.
func (s *Server) BreakWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breakOff()
}

func (s *Server) breakOff() {
	s.breaks++
	s.wake()
}

// Pause makes all requests wait, and watches silent, until Resume or until their context
// ends.
func (s *Server) Pause() { s.setPaused(true) }

// Resume ends Pause.
func (s *Server) Resume() { s.setPaused(false) }

func (s *Server) setPaused(paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = paused
	s.wake()
}

// Compact forgets all changes so far. A watch that is to begin before now, or that has
// not read them, is told that its version is too old.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.compacted, s.store.changes = s.store.version, nil
	s.wake()
}

// Snapshot is what a server had at one moment.
type Snapshot struct{ store store }

// Snapshot keeps what the server has.
func (s *Server) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Snapshot{s.store.clone()}
}

// Restore puts the server back to a snapshot: what was written since is gone, resource
// versions go backwards, and all watches are broken off.
func (s *Server) Restore(to Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store = to.store.clone()
	s.store.compacted, s.store.changes = s.store.version, nil
	s.breakOff()
}
