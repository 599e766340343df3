// Package clusters joins two clusters for real, but for the kubelets: real API servers,
// `strait controller`, gateways without any privilege in network namespaces of their own,
// `strait node` with CAP_NET_ADMIN in the namespaces of nodes, pods that ping. What
// kubelets, the CNI and kube-proxy would do, kubelet_test.go and wiring_test.go do. Both
// clusters use the same range for their pods.
package clusters

import (
	"fmt"
	"os"
	"testing"
	"time"

	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/program"
)

// workDir holds what processes read and write. It is open to every user because the
// gateways are nobody.
var workDir string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if workDir, err = os.MkdirTemp("", "strait-clusters-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(workDir)
	if err := os.Chmod(workDir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer program.Remove()
	return kube.Main(m)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// within waits for something that others bring about, and returns how long it took.
func within(t *testing.T, limit time.Duration, what string, done func() error) time.Duration {
	t.Helper()
	begun := time.Now()
	for {
		err := done()
		took := time.Since(begun)
		if err == nil {
			return took
		}
		if took > limit {
			t.Fatalf("not within %v: %s: %v", limit, what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
