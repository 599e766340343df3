package lender

import (
	"maps"
	"net/http"
	"sync"
	"time"

	"strait.dev/strait/offload/protocol"
)

// Stats are the measurements of a lender, for the process that serves them. The zero value is
// that of a lender that has not started. Safe for concurrent use.
type Stats struct {
	mu       sync.Mutex
	measured Measured
}

// Measured is the state of a lender at one moment.
type Measured struct {
	Twins    map[protocol.State]int // pods of the borrower by state; nil before the first decision
	Refused  map[string]int         // of them, those that get no twin, by reason
	Outside  int                    // endpoints that are left out
	Waiting  int                    // writes that exceed the budget
	Streams  int                    // status streams to the borrower
	Listed   time.Time              // when the borrower's last list came into effect; zero: never
	Requests map[int]uint64         // of the borrower that send something, by the code of the answer
}

// Read returns the state now.
func (s *Stats) Read() Measured {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.measured
	m.Requests = maps.Clone(m.Requests)
	return m
}

// decided notes a decision. Its reasons are those of this package and of the API server of this
// cluster, so there are few.
func (s *Stats) decided(d Decision) {
	twins, refused := make(map[protocol.State]int), make(map[string]int)
	for _, status := range d.Statuses {
		twins[status.State]++
		if status.State == protocol.StateRefused {
			refused[status.Reason]++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.measured.Twins, s.measured.Refused, s.measured.Outside = twins, refused, d.Outside
}

func (s *Stats) waits(writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.measured.Waiting = writes
}

func (s *Stats) listed(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.measured.Listed = now
}

func (s *Stats) requests(handler http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer := &answered{ResponseWriter: w, code: http.StatusOK}
		handler(answer, r)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.measured.Requests == nil {
			s.measured.Requests = make(map[int]uint64)
		}
		s.measured.Requests[answer.code]++
	}
}

func (s *Stats) streams(handler http.HandlerFunc) http.HandlerFunc {
	add := func(n int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.measured.Streams += n
	}
	return func(w http.ResponseWriter, r *http.Request) {
		add(1)
		defer add(-1)
		handler(w, r)
	}
}

type answered struct {
	http.ResponseWriter
	code int
}

func (a *answered) WriteHeader(code int) {
	a.code = code
	a.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController find the connection.
func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }
