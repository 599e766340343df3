//go:build apiserver

package nodehelper

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/rbac"
	"strait.dev/strait/node"
	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/logbuffer"
	"strait.dev/strait/test/netns"
	"strait.dev/strait/test/ports"
)

// fixture is a cluster with the NodeAttachment of one node, and that node's network with
// a gateway in it:
//
//	node ───────────────── gateway
//	192.0.2.21           192.0.2.10      the underlay; 192.0.2.12 is the gateway's next address
//	10.80.0.11 ═══════════ 10.80.0.1     the overlay
//	                       10.71.2.9     what the other cluster has
//
// The gateway's end is a kernel VXLAN device.
type fixture struct {
	*kube.Cluster
	admin         *client.Client
	options       Options
	node, gateway *netns.Namespace
	log           *logbuffer.Buffer
	support       *node.Support // of the node; nil: what its kernel has
}

const index, number = 3, 1

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{node: netns.New(t), gateway: netns.New(t), log: new(logbuffer.Buffer)}
	w.node.IP(t, fmt.Sprintf(`
link add eth0 type veth peer name eth0 %s
addr add 192.0.2.21/24 dev eth0
link set eth0 up
`, w.gateway.Here()))
	w.gateway.IP(t, fmt.Sprintf(`
addr add 192.0.2.10/24 dev eth0
addr add 192.0.2.12/24 dev eth0
link set eth0 up
addr add 10.71.2.9/32 dev lo
link add overlay address 0a:58:0a:50:00:01 mtu 1400 type vxlan id %d dstport 6092 nolearning
addr add 10.80.0.1/32 dev overlay
link set overlay up
neigh add 10.80.0.11 lladdr 0a:58:0a:50:00:0b dev overlay nud permanent
route add 10.80.0.11/32 dev overlay src 10.80.0.1
`, v1alpha1.VNI(index, number)))
	w.gateway.Run(t, "bridge", "fdb", "add", "0a:58:0a:50:00:0b", "dev", "overlay", "dst", "192.0.2.21")
	answerProbes(t, w.gateway)
	w.Cluster = kube.Start(t)
	w.InstallCRDs(t, crds.Files)
	var err error
	w.admin, err = client.New(w.Admin())
	must(t, err)
	w.options = Options{Client: w.limited(t), Node: "node-1", Listen: ports.Address(t), Log: slog.New(slog.NewTextHandler(w.log, nil))}
	w.create(t)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the helper logged:\n%s", w.log)
		}
	})
	return w
}

// limited is a client that may do what package rbac says, and no more.
func (w *fixture) limited(t *testing.T) *client.Client {
	t.Helper()
	account := w.ServiceAccount(t, "strait", "node")
	w.Grant(t, rbac.Node, "strait", "node")
	c, err := client.New(account)
	must(t, err)
	return c
}

// create makes the objects of the picture.
func (w *fixture) create(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	_, err := w.admin.ClusterNetworks().Apply(ctx, &v1alpha1.ClusterNetwork{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName},
		Spec:       v1alpha1.ClusterNetworkSpec{ExternalCIDRs: []v1alpha1.CIDR{"10.70.0.0/16"}, RemapPools: []v1alpha1.CIDR{}},
	}, "test")
	must(t, err)
	_, err = w.admin.NodeAttachments().Apply(ctx, &v1alpha1.NodeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1"},
		Spec: v1alpha1.NodeAttachmentSpec{
			Index: index, UnderlayAddresses: []v1alpha1.IP{"192.0.2.21"}, InternalAddresses: []v1alpha1.IP{"10.80.0.11"},
			PodCIDRs: []v1alpha1.CIDR{"10.0.1.0/24"},
		},
	}, "test")
	must(t, err)
	_, err = w.admin.Peerings().Apply(ctx, &v1alpha1.Peering{
		ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{ClusterID: "b"},
	}, "test")
	must(t, err)
	w.gatewayAt(t, "192.0.2.10")
}

// gatewayAt says where the gateway's pod is.
func (w *fixture) gatewayAt(t *testing.T, address v1alpha1.IP) {
	t.Helper()
	_, err := w.admin.Peerings().ApplyStatus(t.Context(), &v1alpha1.Peering{
		ObjectMeta: metav1.ObjectMeta{Name: "b"},
		Status: v1alpha1.PeeringStatus{
			Prefixes: []v1alpha1.SeenPrefix{{CIDR: "10.0.0.0/16", SeenAs: "10.71.0.0/16"}},
			Gateways: []v1alpha1.GatewayStatus{{
				Name: "b-0", Number: number, InternalAddresses: []v1alpha1.IP{"10.80.0.1"}, PodAddresses: []v1alpha1.IP{address}, MTU: 1400,
			}},
		},
	}, "test")
	must(t, err)
}

// run starts a helper, and returns what ends it.
func (w *fixture) run(t *testing.T) (halt func()) {
	t.Helper()
	o := w.options
	must(t, w.node.In(func() (err error) {
		if o.Kernel, err = node.Open(); err == nil {
			o.Prober, err = node.NewProber()
		}
		return err
	}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		if w.support != nil {
			ended <- run(ctx, o, *w.support)
			return
		}
		ended <- Run(ctx, o)
	}()
	halt = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the helper ended with %v", err)
		}
		o.Prober.Close()
		o.Kernel.Close()
	})
	t.Cleanup(halt)
	return halt
}

// ready waits until the status of the NodeAttachment has that condition.
func (w *fixture) ready(t *testing.T, status metav1.ConditionStatus, reason string) *v1alpha1.NodeAttachment {
	t.Helper()
	var a *v1alpha1.NodeAttachment
	w.eventually(t, reason, func() bool {
		var err error
		a, err = w.admin.NodeAttachments().Get(t.Context(), "node-1", metav1.GetOptions{})
		return err == nil && len(a.Status.Conditions) > 0 && a.Status.Conditions[0].Status == status && a.Status.Conditions[0].Reason == reason
	})
	return a
}

func (w *fixture) eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	kube.Until(t, what, func() string {
		if !so() {
			return "not so yet"
		}
		return ""
	})
}

// get is what the helper answers, or why it does not.
func (w *fixture) get(path string) string {
	answer, err := http.Get("http://" + w.options.Listen + path)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	return string(body)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
