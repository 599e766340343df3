// Package alone runs a test in a process without other tests.
package alone

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// marker is set in the environment of a process that has one test.
const marker = "STRAIT_TEST_ALONE"

// Process runs t in parallel with other tests and in a process of its own, with env in addition to the environment,
// unless this is that process. It reports whether it is: otherwise the test has ended, and its result is that
// of the process.
func Process(t *testing.T, env ...string) bool {
	t.Helper()
	if os.Getenv(marker) != "" {
		return true
	}
	t.Parallel()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v="+strconv.FormatBool(testing.Verbose()))
	c.Env = append(append(os.Environ(), marker+"=1"), env...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	} else if testing.Verbose() {
		t.Logf("%s", out)
	}
	return false
}
