//go:build apiserver || nightly

package claims_test

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
)

var errKilled = errors.New("the process was killed")

// crashingTransport is a connection of a process that may be killed at each of its writes, before
// it is sent or before the answer is read.
type crashingTransport struct {
	http.RoundTripper

	scheduler *scheduler // nil: whenever it wants
	place     int        // among those who take turns

	mu     sync.Mutex
	random *rand.Rand
	kill   float64 // how likely at a write
	dead   bool
}

// restart brings the process back, to be killed at a write with this probability.
func (m *crashingTransport) restart(kill float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kill, m.dead = kill, false
}

func (m *crashingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if m.scheduler != nil {
		m.scheduler.take(m)
	}
	before, after := m.crashPoint(request.Method != http.MethodGet)
	if before {
		return nil, errKilled
	}
	response, err := m.RoundTripper.RoundTrip(request)
	if after && err == nil {
		response.Body.Close()
		return nil, errKilled
	}
	return response, err
}

// crashPoint says whether the process is dead before a request is sent, or before its answer
// is read.
func (m *crashingTransport) crashPoint(write bool) (before, after bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return true, false
	}
	if write && m.random.Float64() < m.kill {
		m.dead = true
		before = m.random.IntN(2) == 0
		return before, !before
	}
	return false, false
}
