package kube

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Cluster is an etcd and a kube-apiserver on loopback. Methods that stop, start, pause or
// restore parts may be called by one goroutine at a time and not for a shared cluster; the
// others, and the configurations that it returns, are safe for concurrent use.
type Cluster struct {
	programs programs
	dir      string // all files of the cluster
	port     *port  // of the API server
	ca       []byte // of the API server's certificate, PEM
	admin    pair
	client   *kubernetes.Clientset // as admin
	options

	etcd, server *process // nil while it is not running
}

// options configure the API server.
type options struct {
	audited bool // the requests of service accounts are recorded
	nodes   bool // nodes have their own rights, limited to their own objects
}

// Start starts a cluster that is stopped when the test ends.
func Start(t testing.TB) *Cluster {
	t.Helper()
	return start(t, options{})
}

// StartWithNodes is Start with the rights of nodes as in a real cluster: the Node authorizer, and
// the admission plugin NodeRestriction.
func StartWithNodes(t testing.TB) *Cluster {
	t.Helper()
	return start(t, options{nodes: true})
}

func start(t testing.TB, o options) *Cluster {
	t.Helper()
	c := newCluster(t, o)
	t.Cleanup(func() {
		if t.Failed() && c.server != nil {
			t.Logf("end of the output of kube-apiserver:\n%s", c.server.tail())
		}
		c.end()
	})
	return c
}

// newCluster starts a cluster. The caller must call end. It skips the test if programs are
// missing.
func newCluster(t testing.TB, o options) *Cluster {
	t.Helper()
	c := &Cluster{programs: findPrograms(t), options: o}
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
	c.dir, err = os.MkdirTemp("", "strait-kube-") // short: the length of socket paths is limited
	must(t, err)
	c.port, err = reservePort()
	must(t, err)
	must(t, c.makeKeys())
	c.client, err = kubernetes.NewForConfig(c.Admin())
	must(t, err)
	c.startEtcd(t)
	c.startServer(t)
	if Version() == "1.31" {
		must(t, c.describe(t.Context()))
	}
}

// describe stores the service CIDR where kubeadm does: before 1.33 the API has no ServiceCIDRs.
func (c *Cluster) describe(ctx context.Context) error {
	if err := c.Namespace(ctx, metav1.NamespaceSystem); err != nil {
		return err
	}
	_, err := c.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "kubeadm-config"},
		Data:       map[string]string{"ClusterConfiguration": "networking: {serviceSubnet: " + serviceCIDR + "}"},
	}, metav1.CreateOptions{})
	return err
}

// end kills running processes and removes all files. It may be called at any stage.
func (c *Cluster) end() {
	c.killServer()
	c.killEtcd()
	if c.port != nil {
		c.port.release()
	}
	_ = os.RemoveAll(c.dir) // the system removes leftovers in the temporary directory
}

// Admin returns the configuration of a client with all permissions. Every call returns a
// new copy.
func (c *Cluster) Admin() *rest.Config {
	config := c.anonymous()
	config.CertData, config.KeyData = c.admin.certificate, c.admin.key
	return config
}

// anonymous returns the configuration of a client without credentials.
func (c *Cluster) anonymous() *rest.Config {
	return &rest.Config{
		Host:            fmt.Sprintf("https://127.0.0.1:%d", c.port.number),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca},
		QPS:             -1, // no client-side rate limit
	}
}

// file returns the path of a file of the cluster.
func (c *Cluster) file(name string) string { return filepath.Join(c.dir, name) }

// until repeats try until it succeeds, while the part that it waits for runs.
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
