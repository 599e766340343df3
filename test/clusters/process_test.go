//go:build apiserver || nightly

package clusters

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"strait.dev/strait/test/program"
)

// operator runs an operator command, which must end with the given status.
func operator(t *testing.T, status int, args ...string) string {
	t.Helper()
	out, is := operate(t, args...)
	if is != status {
		t.Fatalf("strait %s ends with %d, want %d:\n%s", strings.Join(args, " "), is, status, out)
	}
	return out
}

// operate runs an operator command and returns its output and status. Safe for concurrent
// use.
func operate(t *testing.T, args ...string) (string, int) {
	binary, err := program.Binary()
	if err != nil {
		return err.Error(), -1
	}
	cmd := exec.Command(binary, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if cmd.ProcessState == nil {
		return err.Error(), -1
	}
	if errs.Len() > 0 {
		t.Logf("strait %s:\n%s", args[0], &errs)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// unprivilegedProcess checks the privileges of a process.
func unprivilegedProcess(t *testing.T, p *program.Program, capabilities string) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	must(t, err)
	for _, line := range []string{"CapPrm:\t" + capabilities, "CapEff:\t" + capabilities, "CapBnd:\t" + capabilities, "NoNewPrivs:\t1"} {
		if !strings.Contains(string(text), line) {
			t.Errorf("process %d has no %q:\n%s", p.PID(), line, text)
		}
	}
}
