package kube

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// shared is the cluster of Shared, nil until it is first asked for.
var shared *Cluster

// Main is the body of a TestMain: it runs the tests, ends the cluster of Shared, and finds
// goroutines that outlive their test. Its result is the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if shared != nil {
		shared.end()
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// Shared is one cluster for all tests of a package, started by the first that asks.
// Tests that share it do not run in parallel, give their objects names of their own
// or delete them, and leave its parts running.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	if shared == nil {
		c, err := newCluster(findPrograms(t), false)
		must(t, err)
		shared = c
	}
	return shared
}
