package kube

import "testing"

// shared is the cluster of Shared, nil until it is first asked for.
var shared *Cluster

// Main is the body of a TestMain in packages that use Shared: it runs the tests and
// ends the cluster. Its result is the exit code.
func Main(m *testing.M) int {
	defer func() {
		if shared != nil {
			shared.end()
		}
	}()
	return m.Run()
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
