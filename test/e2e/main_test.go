//go:build e2e || nightly

// Package e2e performs an operator's work on two real clusters with the same pod CIDR: it
// installs the chart with Helm, joins the clusters, checks, upgrades, and uninstalls. Test
// programs reach only the API servers; pods run Strait's image and busybox.
package e2e

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"strait.dev/strait/test/program"
)

// report is printed at the end: the duration of each stage, and memory.
var (
	reportMu sync.Mutex
	report   []string // guarded by reportMu
)

func note(format string, args ...any) {
	reportMu.Lock()
	defer reportMu.Unlock()
	report = append(report, fmt.Sprintf(format, args...))
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	defer program.Remove()
	begun := time.Now()
	code := m.Run()
	if len(report) > 0 {
		fmt.Printf("two real clusters: %s; %d s in all\n", strings.Join(report, ", "), int(time.Since(begun).Seconds()))
	}
	return code
}

// stage is a part of a test on which the rest depends.
func stage(t *testing.T, name string, do func(*testing.T)) {
	t.Helper()
	begun := time.Now()
	ok := t.Run(name, do)
	noteStage(name, begun)
	if !ok {
		t.FailNow()
	}
}

func noteStage(name string, begun time.Time) {
	note("%s %.0f s", name, time.Since(begun).Seconds())
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
