package kube

import (
	"os"
	"path/filepath"
	"testing"
)

// StopServer kills the API server. Nothing listens on its port until StartServer.
func (c *Cluster) StopServer(t testing.TB) {
	t.Helper()
	c.killServer()
}

// StartServer starts the API server again, on the same port, and waits until it is
// ready.
func (c *Cluster) StartServer(t testing.TB) {
	t.Helper()
	c.killServer()
	c.startServer(t)
}

// PauseServer stops the API server where it stands: connections stay, and nobody
// answers. StopServer and the end of the test still work.
func (c *Cluster) PauseServer(t testing.TB) {
	t.Helper()
	must(t, c.server.pause())
}

// ResumeServer lets a paused API server go on.
func (c *Cluster) ResumeServer(t testing.TB) {
	t.Helper()
	must(t, c.server.resume())
}

// Snapshot is what etcd held at one moment.
type Snapshot struct{ dir string }

// Snapshot keeps what etcd holds, until the test ends. The cluster goes on: etcd is
// stopped while its files are copied, so that the copy is what a killed etcd leaves
// behind, from which it always recovers.
func (c *Cluster) Snapshot(t testing.TB) *Snapshot {
	t.Helper()
	s := &Snapshot{filepath.Join(t.TempDir(), "etcd")}
	must(t, c.etcd.pause())
	err := os.CopyFS(s.dir, os.DirFS(c.file("etcd")))
	must(t, c.etcd.resume())
	must(t, err)
	return s
}

// Restore puts etcd back to a snapshot of this cluster and starts it and the API
// server anew: what was written since is gone, and resource versions go backwards.
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
