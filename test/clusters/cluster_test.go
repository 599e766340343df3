//go:build apiserver || lab || nightly

package clusters

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/rbac"
	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/netns"
	"strait.dev/strait/test/program"
)

// Namespaces of the API, as in an installation.
const (
	systemNamespace  = "strait-system"
	nodeNamespace    = "strait-nodes"
	gatewayNamespace = "strait-gateways"
)

// cluster is one of the two clusters.
type cluster struct {
	*kube.Cluster
	name   string
	admin  *client.Client
	dir    string // directory of the cluster's files
	nodes  []*box
	pods   []*netns.Namespace // 10.0.1.5 on the first node, 10.0.2.5 on the second and so on
	access struct {
		admin, controller string
		node              []string
	} // kubeconfig files

	withoutNodes bool // no node helpers run

	controller *program.Program
	helpers    []*program.Program
	gateways   map[string]*gatewayPod
}

// podAddresses are the addresses of the pods on the first two nodes of each cluster.
var podAddresses, podAddresses6 = []string{"10.0.1.5", "10.0.2.5"}, []string{"fd00:10:0:1::5", "fd00:10:0:2::5"}

// pair is two clusters whose nodes can reach each other.
type pair struct {
	*wan
	a, b *cluster
}

// newPair starts two clusters with two nodes each.
func newPair(t *testing.T) *pair {
	t.Helper()
	parallelUnlessTimed(t)
	return newPairOf(t, 2)
}

// newPairOf starts two clusters with up to 9 nodes each, with a controller and a node helper
// per node, without a ClusterNetwork or a Peering.
func newPairOf(t *testing.T, nodes int) *pair {
	t.Helper()
	p := &pair{wan: newWAN(t)}
	p.a = p.cluster(t, "a", "192.0.2", nodes, false)
	p.b = p.cluster(t, "b", "198.51.100", nodes, false)
	return p
}

func (p *pair) cluster(t *testing.T, name, net string, nodes int, withoutNodes bool) *cluster {
	t.Helper()
	c := &cluster{
		Cluster: kube.Start(t), name: name, dir: filepath.Join(workDir, t.Name()+"-"+name), gateways: map[string]*gatewayPod{}, withoutNodes: withoutNodes,
	}
	c.access.node, c.helpers = make([]string, nodes), make([]*program.Program, nodes)
	must(t, os.MkdirAll(c.dir, 0o755))
	router := net + ".1"
	p.lan(t, name, router)
	for i := range nodes {
		others := map[string]string{}
		for other := range nodes {
			if other != i {
				others[podNet(other)] = fmt.Sprintf("%s.%d", net, 21+other)
			}
		}
		node := p.attach(t, name, router, fmt.Sprintf("%s.%d", net, 21+i), podNet(i), others)
		c.nodes, c.pods = append(c.nodes, node), append(c.pods, node.pod(t, "5"))
	}
	c.InstallCRDs(t, crds.Files)
	c.grant(t)
	var err error
	c.admin, err = client.New(c.Admin())
	must(t, err)
	for i := range c.nodes {
		c.createNode(t, i)
	}
	c.startController(t)
	for i := range c.nodes {
		if withoutNodes {
			break
		}
		program.Relay(t, c.nodes[i].Namespace, c.Admin())
		c.startHelper(t, i)
	}
	return c
}

// grant creates the service accounts with exactly the permissions of package rbac, and its
// admission policies. Gateways and node helpers get tokens that are bound to their pods.
func (c *cluster) grant(t *testing.T) {
	t.Helper()
	c.access.admin = program.Kubeconfig(t, c.dir, "admin", c.Admin())
	c.access.controller = program.Kubeconfig(t, c.dir, "strait-controller", c.ServiceAccount(t, systemNamespace, "strait-controller"))
	c.Grant(t, rbac.Controller, systemNamespace, "strait-controller")
	c.ServiceAccount(t, gatewayNamespace, "strait-gateway")
	c.Grant(t, rbac.Gateway, gatewayNamespace, "strait-gateway")
	c.ServiceAccount(t, nodeNamespace, "strait-node")
	c.Grant(t, rbac.Node, nodeNamespace, "strait-node")
	c.InstallPolicies(t, rbac.Admission)
}

// createNode creates the Node object as a kubelet does.
func (c *cluster) createNode(t *testing.T, i int) {
	t.Helper()
	cidr, cidr6 := c.nodes[i].podNet+".0/24", podNet6(c.nodes[i].podNet)+"::/64"
	node, err := c.admin.Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)},
		Spec:       corev1.NodeSpec{PodCIDR: cidr, PodCIDRs: []string{cidr, cidr6}},
	}, metav1.CreateOptions{})
	must(t, err)
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: c.nodes[i].address}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	_, err = c.admin.Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	must(t, err)
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i+1) }

// podNet returns the first three bytes of the addresses of a node's pods.
func podNet(i int) string { return fmt.Sprintf("10.0.%d", i+1) }

func (c *cluster) startController(t *testing.T) {
	t.Helper()
	args := []string{
		"controller", "--kubeconfig", c.access.controller, "--namespace", systemNamespace, "--identity", "controller-0",
		"--gateway-image", "strait.test/strait:test",
	}
	if c.withoutNodes {
		args = append(args, "--without-nodes")
	}
	c.controller = program.Start(t, c.name+"/controller", nil, program.Unprivileged, nil, args...)
}

func (c *cluster) startHelper(t *testing.T, i int) {
	t.Helper()
	if c.access.node[i] == "" { // it may be restarted while the API server is away
		config, _ := c.BoundAccount(t, nodeNamespace, "strait-node", "bound-"+nodeName(i), nodeName(i))
		c.access.node[i] = program.Kubeconfig(t, c.dir, "strait-"+nodeName(i), config)
	}
	c.helpers[i] = program.Start(t, c.name+"/"+nodeName(i), c.nodes[i].Namespace, program.OnlyNetAdmin, nil,
		"node", "--kubeconfig", c.access.node[i], "--node", nodeName(i))
}
