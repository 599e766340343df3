package borrower

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/offload/translate"
)

// Stats are the measurements of a borrower, for the process that serves them. The zero value is
// that of a borrower that has not started. Safe for concurrent use.
type Stats struct {
	mu      sync.Mutex
	link    *link
	pods    map[PodState]int
	waiting int // writes
}

// PodState is the state of a pod of the node for Measured. Each pod has one.
type PodState string

// The states of a pod.
const (
	PodRefused PodState = "refused" // the lender makes no twin
	PodWaiting PodState = "waiting" // it is not offered yet, or its twin does not run yet
	PodRunning PodState = "running"
	PodEnded   PodState = "ended" // it succeeded or failed
)

// Measured is the state of a borrower at one moment.
type Measured struct {
	Pods     map[PodState]int // nil before the first pass
	Waiting  int              // writes that exceed the budget
	Up       bool             // the lender's messages arrive
	Received time.Time        // when the last one did; zero: never
}

// Read returns the state now.
func (s *Stats) Read(now time.Time) (m Measured) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m.Pods, m.Waiting = s.pods, s.waiting
	if l := s.link; l != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		m.Received, m.Up = l.received, l.alive(now)
	}
	return m
}

func (s *Stats) begin(l *link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link = l
}

// pass notes the pods of the node, and what the lender says about them.
func (s *Stats) pass(pods []*corev1.Pod, said map[string]*protocol.PodStatus) {
	counts := map[PodState]int{PodRefused: 0, PodWaiting: 0, PodRunning: 0, PodEnded: 0}
	for _, pod := range pods {
		counts[podState(pod, said[string(pod.UID)])]++
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = counts
}

func (s *Stats) waits(writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = writes
}

func podState(pod *corev1.Pod, said *protocol.PodStatus) PodState {
	switch {
	case translate.Final(pod.Status.Phase):
		return PodEnded
	case said != nil && said.State == protocol.StateRefused:
		return PodRefused
	case pod.Status.Phase == corev1.PodRunning:
		return PodRunning
	}
	return PodWaiting
}
