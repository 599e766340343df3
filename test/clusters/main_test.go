// Package clusters joins two clusters for real, but for the kubelets: real API servers,
// `strait controller`, gateways without any privilege in network namespaces of their own,
// `strait node` with CAP_NET_ADMIN in the namespaces of nodes, pods that ping. What
// kubelets, the CNI and kube-proxy would do, kubelet_test.go and wiring_test.go do. Both
// clusters use the same range for their pods.
package clusters

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"strait.dev/strait/test/kube"
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
	return kube.Main(m)
}

// straitBinary is the program under test: $STRAIT_BINARY, else built once per run from
// this tree.
var straitBinary = sync.OnceValues(func() (string, error) {
	if given := os.Getenv("STRAIT_BINARY"); given != "" {
		return given, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	path := filepath.Join(workDir, "strait")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, "strait.dev/strait/cmd/strait")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(build.Args, " "), err, out)
	}
	return path, nil
})

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
