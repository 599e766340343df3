package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Cluster is an etcd and a kube-apiserver on loopback. Its methods are for one
// goroutine at a time; the configurations that it gives are for any.
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

// patience is how long a part may take to come up: many times what it needs on two
// busy cores.
const patience = 2 * time.Minute

// Start starts a cluster that ends with the test.
func Start(t testing.TB) *Cluster {
	t.Helper()
	return start(t, false)
}

func start(t testing.TB, audited bool) *Cluster {
	t.Helper()
	c, err := newCluster(findPrograms(t), audited)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() && c.server != nil {
			t.Logf("kube-apiserver printed last:\n%s", c.server.tail())
		}
		c.end()
	})
	return c
}

// newCluster starts a cluster. The caller has to end it.
func newCluster(p programs, audited bool) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "strait-kube-") // short: the paths of sockets are limited
	if err != nil {
		return nil, err
	}
	c := &Cluster{programs: p, dir: dir, audited: audited}
	if err := c.up(); err != nil {
		c.end()
		return nil, fmt.Errorf("start a cluster: %w", err)
	}
	return c, nil
}

func (c *Cluster) up() (err error) {
	if c.port, err = reservePort(); err != nil {
		return err
	}
	if err := c.makeKeys(); err != nil {
		return err
	}
	if c.client, err = kubernetes.NewForConfig(c.Admin()); err != nil {
		return err
	}
	if err := c.startEtcd(); err != nil {
		return err
	}
	return c.startServer()
}

// end kills what runs and removes what was written. It may be called at any stage.
func (c *Cluster) end() {
	c.killServer()
	c.killEtcd()
	if c.port != nil {
		c.port.release()
	}
	_ = os.RemoveAll(c.dir) // of the temporary folder, where leftovers go in time
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

// until tries something again and again, while the part it waits for runs.
func until(part *process, what string, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-part.exited:
			return errors.Join(fmt.Errorf("%s: %w", what, err), part.ended())
		case <-ctx.Done():
			return fmt.Errorf("%s: not after %v: %w", what, patience, err)
		case <-tick.C:
		}
	}
}
