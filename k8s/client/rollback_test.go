//go:build apiserver

package client_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/ports"
	"strait.dev/strait/test/wait"
)

func TestF6_ACacheLearnsWhatABackupUndidAlsoWhenItsVersionsAreGivenAnew(t *testing.T) {
	cluster := kube.Start(t)
	cluster.InstallCRDs(t, crds.Files)
	proxy := newProxy(t, cluster.Admin())
	direct := clientOf(t, cluster)
	follower, err := client.New(proxy.config)
	must(t, err)

	ctx, cancel := context.WithCancel(t.Context())
	all := follower.Peerings().Cache("")
	done := make(chan struct{})
	go func() { all.RunWithContext(ctx); close(done) }()
	defer func() { cancel(); <-done }()
	if !cache.WaitForCacheSync(ctx.Done(), all.HasSynced) {
		t.Fatal("no first list")
	}
	create := func(name string) *v1alpha1.Peering {
		made, err := direct.Peerings().Create(ctx, peering(name), metav1.CreateOptions{})
		must(t, err)
		return made
	}
	remove := func(name string) { must(t, direct.Peerings().Delete(ctx, name, metav1.DeleteOptions{})) }
	create("kept")
	backup := cluster.Snapshot(t)
	for range 200 { // more than a server writes before it can be asked
		create("passing")
		remove("passing")
	}
	remove("kept")
	seen := versionOf(t, create("undone"))
	wait.Until(t, "what the backup lacks is in the cache", func() bool {
		_, kept := all.Get("kept")
		_, undone := all.Get("undone")
		return !kept && undone
	})

	// The follower meets a server whose versions have passed those it saw.
	proxy.close()
	cluster.Restore(t, backup)
	for passed := false; !passed; {
		passed = versionOf(t, create("passing")) > seen
		remove("passing")
	}
	proxy.open(t)
	wait.Until(t, "the cache is what the backup was", func() bool {
		_, kept := all.Get("kept")
		_, undone := all.Get("undone")
		return kept && !undone
	})
}

// versionOf is the version of etcd in which an object was last written.
func versionOf(t *testing.T, of metav1.Object) uint64 {
	t.Helper()
	version, err := strconv.ParseUint(of.GetResourceVersion(), 10, 64)
	must(t, err)
	return version
}

// proxy is a port of its own that leads to an API server, while it is open.
type proxy struct {
	config *rest.Config // of who takes it
	to, at string

	mu          sync.Mutex
	listener    net.Listener
	connections []net.Conn
}

func newProxy(t *testing.T, to *rest.Config) *proxy {
	t.Helper()
	server, err := url.Parse(to.Host)
	must(t, err)
	w := &proxy{config: rest.CopyConfig(to), to: server.Host, at: ports.Address(t)}
	w.open(t)
	t.Cleanup(w.close)
	server.Host = w.at
	w.config.Host = server.String()
	return w
}

// open listens.
func (w *proxy) open(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", w.at)
	must(t, err)
	w.listener = l
	go func() {
		for {
			here, err := l.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", w.to)
			if err != nil {
				here.Close()
				continue
			}
			w.mu.Lock()
			w.connections = append(w.connections, here, there)
			w.mu.Unlock()
			go func() { io.Copy(there, here); there.Close() }()
			go func() { io.Copy(here, there); here.Close() }()
		}
	}()
}

// close refuses who comes and breaks off what is there.
func (w *proxy) close() {
	w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.connections {
		c.Close()
	}
	w.connections = nil
}
