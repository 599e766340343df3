//go:build e2e || nightly

package nodes

import (
	"os"
	"path/filepath"
	"testing"
)

// folderOfLab creates the directory of a lab, with a cgroup.
func folderOfLab(t *testing.T) *Lab {
	t.Helper()
	l := &Lab{}
	must(t, l.claimFolder())
	t.Cleanup(func() { must(t, removeLab(l.dir)) })
	var err error
	l.cgroups, err = newCgroups(filepath.Join(l.dir, "cgroups"), filepath.Base(l.dir))
	must(t, err)
	return l
}

func (l *Lab) isThere() bool {
	for _, path := range append([]string{l.dir}, l.cgroups...) {
		if _, err := os.Stat(path); err != nil {
			return false
		}
	}
	return true
}

func TestOnlyLeftoversOfKilledLabsAreRemoved(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("left out: cgroups need root; run the tests of this package with sudo")
	}
	killed, running := folderOfLab(t), folderOfLab(t)
	_, err := killed.cgroups.child("node")
	must(t, err)
	must(t, killed.lock.Close()) // as the kernel does for a killed process
	removeRemains(t)
	for _, path := range append([]string{killed.dir}, killed.cgroups...) {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s was left (%v)", path, err)
		}
	}
	if !running.isThere() {
		t.Error("a running lab was removed")
	}
}
