package nodes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/netns"
)

// Options describe a cluster.
type Options struct {
	Name  string // the context in the kubeconfig, and the prefix of node names: NAME-node-1
	Index int    // of its networks: 1 to 254, unique per cluster
	Nodes int    // 1 to 100
	Pods  int    // its pods have 10.Pods.0.0/16: 0 to 95
	CNI   CNI
	// Families are the IP families of nodes, pods and Services.
	Families Families
}

// Cluster is a cluster of a lab. Its methods are for the test's goroutine; the result of
// Admin is safe for concurrent use.
type Cluster struct {
	lab       *Lab
	name      string
	index     int
	pods      int
	cni       CNI
	families  []family
	dir       string
	authority *kube.Authority
	admin     *rest.Config
	api       *kubernetes.Clientset // as admin
	nodes     []*node
	server    *process // the API server
}

// Start starts clusters, concurrently, and returns when all nodes and CoreDNS are ready.
func (l *Lab) Start(t testing.TB, all ...Options) []*Cluster {
	t.Helper()
	clusters, failed := make([]*Cluster, len(all)), make([]error, len(all))
	var ready sync.WaitGroup
	for i, o := range all {
		c := &Cluster{lab: l, name: o.Name, index: o.Index, pods: o.Pods, cni: o.CNI, families: o.Families.all(), dir: filepath.Join(l.dir, o.Name)}
		clusters[i] = c
		l.lan(t, o)
		control := l.attach(t, o, 1)
		for number := 1; number <= o.Nodes; number++ {
			network := l.attach(t, o, firstNode+number-1)
			forward(t, network, o)
			name := nodeName(o.Name, number)
			c.nodes = append(c.nodes, &node{c: c, number: number, name: name, network: network, dir: c.file(name)})
		}
		ready.Go(func() { failed[i] = c.up(control) })
	}
	ready.Wait()
	must(t, errors.Join(failed...))
	for _, c := range clusters {
		l.admins[c.name] = c.admin
	}
	must(t, writeKubeconfig(l.Kubeconfig(), l.admins))
	return clusters
}

// up starts the parts of the cluster.
func (c *Cluster) up(control *netns.Namespace) error {
	if err := os.Mkdir(c.dir, 0o755); err != nil {
		return err
	}
	if err := c.makeKeys(); err != nil {
		return err
	}
	var err error
	if c.api, err = kubernetes.NewForConfig(c.Admin()); err != nil {
		return err
	}
	if err := c.startControl(control); err != nil {
		return err
	}
	if _, err := c.access("system:kube-proxy"); err != nil {
		return err
	}
	if err := c.createDNS(); err != nil {
		return err
	}
	failed := make([]error, len(c.nodes))
	var started sync.WaitGroup
	for i, n := range c.nodes {
		started.Go(func() { failed[i] = n.up() })
	}
	started.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	return c.ready()
}

// ready returns when all nodes and CoreDNS are ready.
func (c *Cluster) ready() error {
	for _, n := range c.nodes {
		if err := until(c.lab.ctx, n.kubelet, n.name+" is ready", func(ctx context.Context) error {
			is, err := c.api.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, condition := range is.Status.Conditions {
				if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
					return nil
				}
			}
			return fmt.Errorf("conditions: %v", is.Status.Conditions)
		}); err != nil {
			return err
		}
	}
	return c.dnsReady()
}

// Nodes returns the number of nodes of the cluster.
func (c *Cluster) Nodes() int { return len(c.nodes) }

// LoadImage loads the images of an OCI or Docker archive on all nodes.
func (c *Cluster) LoadImage(t testing.TB, archive string) {
	t.Helper()
	for _, n := range c.nodes {
		must(t, n.load(t.Context(), archive))
	}
}

// OnNode runs a command of this machine on a node, in all its namespaces, and returns its
// output. Nodes are numbered from 1.
func (c *Cluster) OnNode(t testing.TB, number int, command ...string) (string, error) {
	t.Helper()
	inside := c.nodes[number-1].enter(command...)
	out, err := exec.CommandContext(t.Context(), inside[0], inside[1:]...).CombinedOutput()
	return string(out), err
}

// PowerOff ends a node as a power failure does: its network link is down, and all its
// processes are killed. It does not start again. Nodes are numbered from 1.
func (c *Cluster) PowerOff(t testing.TB, number int) {
	t.Helper()
	n := c.nodes[number-1]
	n.network.IP(t, "link set dev eth0 down")
	n.first.kill()
}

// Disconnect drops all packets between this cluster and the others, until Reconnect, as if
// its power had failed. Its API server is still reachable for Command.
func (c *Cluster) Disconnect(t testing.TB) {
	t.Helper()
	c.lab.router.NFT(t, fmt.Sprintf(`table inet disconnected%[1]d {
	chain forward {
		type filter hook forward priority filter
		iifname lan%[1]d drop
		oifname lan%[1]d drop
	}
}`, c.index))
}

// Reconnect ends Disconnect.
func (c *Cluster) Reconnect(t testing.TB) {
	t.Helper()
	c.lab.router.NFT(t, fmt.Sprintf("delete table inet disconnected%d", c.index))
}

// Separate drops all packets between two clusters, until Reunite. Each of them works, and its API
// server is still reachable for Command.
func (l *Lab) Separate(t testing.TB, a, b *Cluster) {
	t.Helper()
	l.router.NFT(t, fmt.Sprintf(`table inet separated {
	chain forward {
		type filter hook forward priority filter
		iifname lan%[1]d oifname lan%[2]d drop
		iifname lan%[2]d oifname lan%[1]d drop
	}
}`, a.index, b.index))
}

// Reunite ends Separate.
func (l *Lab) Reunite(t testing.TB) {
	t.Helper()
	l.router.NFT(t, "delete table inet separated")
}

// until repeats try until it succeeds, while the process that it waits for runs.
func until(ctx context.Context, process *process, what string, try func(context.Context) error) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-process.exited:
			return errors.Join(fmt.Errorf("%s: %w", what, err), process.ended())
		case <-ctx.Done():
			return fmt.Errorf("%s: not before the test's timeout: %w; end of the output of %s:\n%s", what, err, process.name, process.tail())
		case <-tick.C:
		}
	}
}
