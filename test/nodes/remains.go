package nodes

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// folders is the prefix of the directories of labs. Each contains a file locked by its lab,
// which shows that the lab is running.
var folders = filepath.Join(os.TempDir(), "strait-nodes-")

// claimFolder creates the lab's directory.
func (l *Lab) claimFolder() (err error) {
	if l.dir, err = os.MkdirTemp("", filepath.Base(folders)); err != nil {
		return err
	}
	if l.lock, err = os.Create(filepath.Join(l.dir, "lock")); err != nil {
		return err
	}
	return unix.Flock(int(l.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

// removeRemains removes the leftovers of killed labs. Their processes ended with them.
func removeRemains(t testing.TB) {
	t.Helper()
	locks, err := filepath.Glob(folders + "*/lock")
	must(t, err)
	for _, file := range locks {
		lock, err := os.Open(file)
		if err != nil {
			continue // it has just ended
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			must(t, removeLab(filepath.Dir(file)))
		}
		_ = lock.Close()
	}
}

// removeLab removes the cgroups and the directory of a lab without processes.
func removeLab(dir string) error {
	return errors.Join(removeCgroups(filepath.Join(dir, "cgroups")), os.RemoveAll(dir))
}
