package kube

import (
	"os"
	"path/filepath"
	"testing"
)

// StopServer kills the API server. Its port refuses connections until StartServer.
func (c *Cluster) StopServer(t testing.TB) {
	t.Helper()
	c.killServer()
}

// StartServer starts the API server on the same port and waits until it is ready.
func (c *Cluster) StartServer(t testing.TB) {
	t.Helper()
	c.killServer()
	c.startServer(t)
}

// PauseServer suspends the API server: connections stay open without responses. StopServer
// and the end of the test still work.
func (c *Cluster) PauseServer(t testing.TB) {
	t.Helper()
	must(t, c.server.pause())
}

// ResumeServer resumes a paused API server.
func (c *Cluster) ResumeServer(t testing.TB) {
	t.Helper()
	must(t, c.server.resume())
}

// Snapshot is the content of etcd at one moment.
type Snapshot struct{ dir string }

// Snapshot saves the content of etcd until the test ends. The cluster continues: etcd is
// stopped while its files are copied, so that the copy equals that of a killed etcd, from
// which it always recovers.
func (c *Cluster) Snapshot(t testing.TB) *Snapshot {
	t.Helper()
	s := &Snapshot{filepath.Join(t.TempDir(), "etcd")}
	must(t, c.etcd.pause())
	err := os.CopyFS(s.dir, os.DirFS(c.file("etcd")))
	must(t, c.etcd.resume())
	must(t, err)
	return s
}

// Restore resets etcd to a snapshot of this cluster and restarts it and the API server:
// later writes are lost, and resource versions go backwards.
func (c *Cluster) Restore(t testing.TB, s *Snapshot) {
	t.Helper()
	c.killServer()
	c.killEtcd()
	must(t, os.RemoveAll(c.file("etcd")))
	must(t, os.CopyFS(c.file("etcd"), os.DirFS(s.dir)))
	c.startEtcd(t)
	c.startServer(t)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
