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

// operator runs one of the operator's commands, which has to end with a status.
func operator(t *testing.T, status int, args ...string) string {
	t.Helper()
	out, is := operate(t, args...)
	if is != status {
		t.Fatalf("strait %s ends with %d, want %d:\n%s", strings.Join(args, " "), is, status, out)
	}
	return out
}

// operate runs one of the operator's commands and returns what it printed, and its status.
// It is for any goroutine.
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

// unprivilegedProcess checks what the kernel lets a process do.
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
