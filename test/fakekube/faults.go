package fakekube

import (
	"net"
	"slices"
	"syscall"
)

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// Fail calls fault with each request before it is performed, until the returned function is
// called. An API error, made by apimachinery's errors.New..., is the server's response; any
// other error is a connection error; nil performs the request. fault may use the server.
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

// Late calls late with each request after it is performed and before its response. late may
// use the server.
func (s *Server) Late(late func(Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = late
}

// Stop breaks all watches and refuses connections until Start.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = true
	s.breakOff()
}

// Start ends Stop. The objects are unchanged.
func (s *Server) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
	s.wake()
}

// BreakWatches breaks all watches, like a server that closes its connections.
func (s *Server) BreakWatches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.breakOff()
}

func (s *Server) breakOff() {
	s.breaks++
	s.wake()
}

// Pause makes all requests wait and stops watch events until Resume or until the request's
// context ends.
func (s *Server) Pause() { s.setPaused(true) }

// Resume ends Pause.
func (s *Server) Resume() { s.setPaused(false) }

func (s *Server) setPaused(paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = paused
	s.wake()
}

// Compact forgets all changes so far. A watch that starts before now, or has not read them,
// gets the error that its version is too old.
func (s *Server) Compact() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.compacted, s.store.changes = s.store.version, nil
	s.wake()
}

// Snapshot is the state of a server at one moment.
type Snapshot struct{ store store }

// Snapshot returns the state of the server.
func (s *Server) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Snapshot{s.store.clone()}
}

// Restore resets the server to a snapshot: later writes are lost, resource versions go
// backwards, and all watches are broken.
func (s *Server) Restore(to Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store = to.store.clone()
	s.store.compacted, s.store.changes = s.store.version, nil
	s.breakOff()
}
