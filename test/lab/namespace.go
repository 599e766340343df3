package lab

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	kernel "strait.dev/strait/internal/netns"
	"strait.dev/strait/test/netns"
)

// Every namespace has the name strait-lab-PID-SERIAL-ROLE, and the working directory
// strait-lab-PID-*, so that two runs never conflict and a later run can identify the
// leftovers of one that was killed.
const namePrefix = "strait-lab-"

// serial is the number of namespaces so far.
var serial atomic.Int32

// Namespace is one network namespace of the topology.
type Namespace struct {
	*netns.Namespace
	Role string // podA, nodeA, ...
}

// NewNamespace creates a namespace that is removed when the test ends, or skips the test with
// the reason. sysctls are set before any link exists.
func NewNamespace(t *testing.T, role string, sysctls map[string]string) *Namespace {
	t.Helper()
	Need(t)
	n := &Namespace{netns.Add(t, fmt.Sprintf("%s%d-%d-%s", namePrefix, os.Getpid(), serial.Add(1), role)), role}
	if err := n.Set(sysctls); err != nil {
		t.Fatalf("in %s: %v", role, err)
	}
	return n
}

// removeStale deletes the namespaces and working directories of killed runs.
func removeStale() {
	kernel.RemoveAbandoned(namePrefix)
	folders, _ := filepath.Glob(filepath.Join(os.TempDir(), namePrefix+"*")) // the pattern is well-formed
	for _, folder := range folders {
		if kernel.Abandoned(namePrefix, filepath.Base(folder)) {
			_ = os.RemoveAll(folder) // another run may remove it at the same time
		}
	}
}
