package gateway

import (
	"bytes"
	"encoding/base64"
	"os"
	"os/exec"
	"strconv"
	"testing"
)

// privateKey is a private key of 32 equal bytes, as its file holds it.
func privateKey(n byte) []byte {
	return []byte(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32)))
}

// alone marks the process of a test that has it to itself.
const alone = "STRAIT_TEST_ALONE"

// inItsOwnProcess runs a test in a process without other tests, because it measures the heap, in which what they
// leave becomes garbage at any time; unless this is that process. It reports whether it is.
func inItsOwnProcess(t *testing.T) bool {
	t.Helper()
	if os.Getenv(alone) != "" {
		return true
	}
	t.Parallel()
	c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v="+strconv.FormatBool(testing.Verbose()))
	c.Env = append(os.Environ(), alone+"=1")
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	} else if testing.Verbose() {
		t.Logf("%s", out)
	}
	return false
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
