package lab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

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

// Main runs the tests of a package, while those of no other package below this one run, and returns
// the exit status. Its TestMain calls it.
func Main(m *testing.M) int {
	if leftOut != "" {
		return m.Run() // every test skips with the reason
	}
	lock, err := alone()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer lock.Close()
	removeStale()
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

// alone waits until no other package of the lab runs on this machine, and returns a file that keeps
// others waiting until it is closed. Some tests measure, and each package runs several at once.
func alone() (*os.File, error) {
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), namePrefix+"lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(lock.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) { // the runtime sends signals to its threads
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("wait for other packages of the lab: lock %s: %w", lock.Name(), err), lock.Close())
	}
	return lock, nil
}
