package kube

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Cluster is an etcd and a kube-apiserver on loopback. Methods that stop, start, pause or
// restore parts are for one goroutine at a time and for no shared cluster; the others, and
// the configurations that it gives, are for any.
type Cluster struct {
	programs programs
	dir      string // everything that the cluster writes
	port     *port  // of the API server
	ca       []byte // of the API server's certificate, PEM
	admin    pair
	client   *kubernetes.Clientset // as admin
	audited  bool                  // the requests of service accounts are recorded

	etcd, server *process // nil while it does not run
}

// Start starts a cluster that ends with the test.
func Start(t testing.TB) *Cluster {
	t.Helper()
	return start(t, false)
}

func start(t testing.TB, audited bool) *Cluster {
	t.Helper()
	c := newCluster(t, audited)
	t.Cleanup(func() {
		if t.Failed() && c.server != nil {
			t.Logf("kube-apiserver printed last:\n%s", c.server.tail())
		}
		c.end()
	})
	return c
}

// newCluster starts a cluster. The caller has to end it. It skips the test where the
// programs are missing.
func newCluster(t testing.TB, audited bool) *Cluster {
	t.Helper()
	c := &Cluster{programs: findPrograms(t), audited: audited}
	complete := false
	defer func() {
		if !complete {
			c.end()
		}
	}()
	c.up(t)
	complete = true
	return c
}

func (c *Cluster) up(t testing.TB) {
	t.Helper()
	var err error
	c.dir, err = os.MkdirTemp("", "strait-kube-") // short: the paths of sockets are limited
	must(t, err)
	c.port, err = reservePort()
	must(t, err)
	must(t, c.makeKeys())
	c.client, err = kubernetes.NewForConfig(c.Admin())
	must(t, err)
	c.startEtcd(t)
	c.startServer(t)
}

// end kills what runs and removes what was written. It may be called at any stage.
func (c *Cluster) end() {
	c.killServer()
	c.killEtcd()
	if c.port != nil {
		c.port.release()
	}
	_ = os.RemoveAll(c.dir) // leftovers in the temporary folder are removed by the system
}

// Admin is the configuration of a client that may do everything. Every call gives
// another copy.
func (c *Cluster) Admin() *rest.Config {
	config := c.anonymous()
	config.CertData, config.KeyData = c.admin.certificate, c.admin.key
	return config
}

// anonymous is the configuration of a client without credentials.
func (c *Cluster) anonymous() *rest.Config {
	return &rest.Config{
		Host:            fmt.Sprintf("https://127.0.0.1:%d", c.port.number),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca},
		QPS:             -1, // no limit: tests may be as fast as they can
	}
}

// file is the path of a file of the cluster.
func (c *Cluster) file(name string) string { return filepath.Join(c.dir, name) }

// until tries something again and again while the part it waits for runs.
func until(t testing.TB, part *process, what string, try func(context.Context) error) {
	t.Helper()
	Until(t, what, func() string {
		err := try(t.Context())
		if err == nil {
			return ""
		}
		if ended := part.ended(); ended != nil {
			t.Fatalf("%s: %v: %v", what, err, ended)
		}
		return err.Error()
	})
}
