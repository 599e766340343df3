//go:build apiserver || lab || nightly

package clusters

import (
	"fmt"
	"os"
	"testing"

	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/program"
)

// workDir holds the files of processes. Every user can access it because the gateways run
// as user nobody.
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
