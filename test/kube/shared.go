package kube

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// shared is the cluster of Shared, nil until its first use.
var shared struct {
	sync.Mutex
	*Cluster
}

// Main is the body of a TestMain: it runs the tests, stops the cluster of Shared, and
// reports goroutine leaks. It returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.Cluster != nil {
		shared.end()
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// Shared returns one cluster for all tests of a package, started on first use. Tests that
// share it must keep its parts running and delete their objects. Those that run in parallel
// must also use unique names or namespaces.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.Cluster == nil {
		shared.Cluster = newCluster(t, options{})
	}
	return shared.Cluster
}
