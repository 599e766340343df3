package lab

import (
	"fmt"
	"os"
	"testing"

	"strait.dev/strait/test/netns"
	"strait.dev/strait/test/program"
)

// leftOut is why no lab can run on this machine, or empty.
var leftOut = netns.Missing(netns.Tool{Name: "traceroute", Package: "traceroute"},
	netns.Tool{Name: "ethtool", Package: "ethtool"}, netns.Tool{Name: "setpriv", Package: "util-linux"})

// WorkDir contains the files of gateways: the binary, their configuration and keys. Every
// user can access it because the gateways run as user nobody.
var WorkDir string

// Need skips the test with the reason if no lab can run on this machine.
func Need(t *testing.T) {
	t.Helper()
	if leftOut != "" {
		t.Skip(leftOut)
	}
}

// Main runs the tests of a package and returns the exit status. Its TestMain calls it.
func Main(m *testing.M) int {
	if leftOut != "" {
		return m.Run() // every test skips with the reason
	}
	removeStale()
	var err error
	if WorkDir, err = os.MkdirTemp("", fmt.Sprintf("%s%d-", namePrefix, os.Getpid())); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(WorkDir)
	defer program.Remove()
	if err := os.Chmod(WorkDir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
