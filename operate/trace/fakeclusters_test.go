package trace

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/config"
	"strait.dev/strait/gateway"
	"strait.dev/strait/internal/localsocket"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/node"
)

// The world of these tests: two clusters with the same CIDRs. Gateways are real tables;
// kernels answer what nodes that are set up well do, unless a test breaks them.
//
//	a: default/web 10.0.1.5 ── node-1 ── b-0 ══ a-0 ── node-2 ── default/api 10.0.2.9 :b
type fixture struct{ a, b *cluster }

// cluster is one of them, and what is asked of it.
type cluster struct {
	Side
	pods       []corev1.Pod
	config     config.Gateway
	links      []localsocket.TraceLink
	broken     func(way *node.Way)                   // changes what kernels answer
	refuse     error                                 // to ask kernels
	unanswered error                                 // to ask gateways
	changed    func(answer *localsocket.TraceAnswer) // what gateways answer
}

var start = time.Unix(1_700_000_000, 0)

func newFixture() *fixture {
	a, b := newCluster("a", "b", "10.71.0.0/16", "10.72.0.0/16", 1), newCluster("b", "a", "10.72.0.0/16", "10.71.0.0/16", 1)
	a.pods = []corev1.Pod{pod("default", "web", "node-1", "10.0.1.5", "fd00:10:0:1::5"), pod("kube-system", "agent", "node-1", "192.0.2.21")}
	a.pods[1].Spec.HostNetwork = true
	b.pods = []corev1.Pod{pod("default", "api", "node-2", "10.0.2.9")}
	b.pods[0].Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 80}}}}
	return &fixture{a, b}
}

func newCluster(id, remote, seenAs, _ string, number int32) *cluster {
	link := localsocket.TraceLink{
		Name: id + "-0", Gateway: id + "-0", OwnKey: "key of " + remote + "-0", RemoteKey: "key of " + id + "-0",
		Active: true, Up: true, RTT: 1500 * time.Microsecond, PathMTU: 1390, LastHandshake: start.Add(-time.Minute), Endpoint: netip.MustParseAddrPort("203.0.113.9:51840"),
	}
	c := &cluster{links: []localsocket.TraceLink{link}}
	c.Side = Side{ID: id, Asked: c, Network: &v1alpha1.ClusterNetwork{Status: v1alpha1.ClusterNetworkStatus{PodCIDRs: []v1alpha1.CIDR{"10.0.0.0/16", "fd00:10::/48"}}}}
	c.Peerings = []v1alpha1.Peering{{
		ObjectMeta: metav1.ObjectMeta{Name: remote},
		Status: v1alpha1.PeeringStatus{
			ClusterID:        v1alpha1.ClusterID(remote),
			Prefixes:         []v1alpha1.SeenPrefix{{CIDR: "10.0.0.0/16", SeenAs: v1alpha1.CIDR(seenAs)}},
			ExternalPrefixes: []v1alpha1.SeenPrefix{{CIDR: "10.70.0.0/16", SeenAs: "10.73.0.0/16"}},
			Gateways: []v1alpha1.GatewayStatus{{
				Name: remote + "-0", Number: number, PublicKey: v1alpha1.PublicKey("key of " + remote + "-0"),
				InternalAddresses: []v1alpha1.IP{"10.80.0.1"}, PodAddresses: []v1alpha1.IP{"10.0.1.9"}, MTU: 1390, LinkUp: true,
			}},
		},
	}}
	prefix := netip.MustParsePrefix
	c.config = config.Gateway{
		Cluster: id,
		Overlay: config.Overlay{Addresses: addrs("10.80.0.1"), ExternalAddresses: addrs("10.70.0.1")},
		Local:   config.Local{Prefixes: []netip.Prefix{prefix("10.0.0.0/16")}, ExternalPrefixes: []netip.Prefix{prefix("10.70.0.0/16")}},
		Remote: config.Remote{Cluster: remote, Prefixes: []config.RemotePrefix{
			{CIDR: prefix("10.0.0.0/16"), SeenAs: prefix(seenAs)}, {CIDR: prefix("10.70.0.0/16"), SeenAs: prefix("10.73.0.0/16")},
		}},
	}
	for i, n := range []string{"1", "2"} {
		index := int32(i + 1)
		c.Nodes = append(c.Nodes, v1alpha1.NodeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "node-" + n},
			Spec: v1alpha1.NodeAttachmentSpec{
				Index: index, UnderlayAddresses: []v1alpha1.IP{v1alpha1.IP("192.0.2.2" + n)}, InternalAddresses: []v1alpha1.IP{v1alpha1.IP("10.80.0.1" + n)},
				ExternalAddresses: []v1alpha1.IP{v1alpha1.IP("10.70.0.1" + n)}, PodCIDRs: []v1alpha1.CIDR{v1alpha1.CIDR("10.0." + n + ".0/24")},
			},
			Status: v1alpha1.NodeAttachmentStatus{Gateways: []v1alpha1.NodeGateway{{Name: remote + "-0", VNI: int32(v1alpha1.VNI(index, number)), Ready: true, Encapsulation: v1alpha1.Geneve}}},
		})
		c.config.Overlay.Nodes = append(c.config.Overlay.Nodes, config.Node{
			Name: "node-" + n, Underlay: netip.MustParseAddr("192.0.2.2" + n), Encapsulation: config.Geneve, VNI: v1alpha1.VNI(index, number),
			Addresses: addrs("10.80.0.1" + n), ExternalAddresses: addrs("10.70.0.1" + n), Prefixes: []netip.Prefix{prefix("10.0." + n + ".0/24")},
		})
	}
	return c
}

func addrs(text string) []netip.Addr { return []netip.Addr{netip.MustParseAddr(text)} }

func pod(namespace, name, node string, ips ...string) corev1.Pod {
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, ip := range ips {
		p.Status.PodIPs = append(p.Status.PodIPs, corev1.PodIP{IP: ip})
	}
	return p
}

func (c *cluster) Pod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	for i := range c.pods {
		if p := &c.pods[i]; p.Namespace == namespace && p.Name == name {
			return p, nil
		}
	}
	return nil, nil
}

func (c *cluster) PodsOn(_ context.Context, node string) (all []corev1.Pod, err error) {
	for _, p := range c.pods {
		if p.Spec.NodeName == node {
			all = append(all, p)
		}
	}
	return all, nil
}

// Way is what the kernel of a node answers that is as it should be.
func (c *cluster) Way(_ context.Context, onNode string, to, from netip.Addr) (*node.Way, error) {
	if c.refuse != nil {
		return nil, c.refuse
	}
	a := c.attachment(onNode)
	w := &node.Way{To: to, From: from, Input: "cni0", Rule: true, Sources: node.SourcesKept, Device: "eth0", Via: netip.MustParseAddr("192.0.2.1"), MTU: 1500}
	for _, seen := range slices.Concat(c.Peerings[0].Status.Prefixes, c.Peerings[0].Status.ExternalPrefixes) {
		if p := netip.MustParsePrefix(string(seen.SeenAs)); p.Contains(to) {
			w.Range, w.Device, w.Via, w.MTU = p, "cni-strait00c0f", netip.MustParseAddr("10.80.0.1"), 1390
			w.Overlay = &node.WayOverlay{
				Encapsulation: node.Geneve, Up: true, VNI: v1alpha1.VNI(a.Spec.Index, 1), Gateway: netip.MustParseAddr("10.0.1.9"),
				Source: netip.MustParseAddr(string(a.Spec.UnderlayAddresses[0])),
			}
		}
	}
	switch {
	case has(a.Spec.InternalAddresses, to):
		w.Device, w.Via, w.Local = "lo", netip.Addr{}, true
	case within(a.Spec.PodCIDRs, to):
		w.Device, w.Via = "cni0", netip.Addr{}
	}
	if !from.IsValid() {
		w.Input, w.Source = "", netip.MustParseAddr(string(a.Spec.InternalAddresses[0]))
	}
	if c.broken != nil {
		c.broken(w)
	}
	return w, nil
}

// Gateway is what a real table answers.
func (c *cluster) Gateway(_ context.Context, name string, q localsocket.TraceQuestion) (*localsocket.TraceAnswer, error) {
	if c.unanswered != nil {
		return nil, c.unanswered
	}
	if name != c.Peerings[0].Status.Gateways[0].Name {
		return nil, errors.New("there is no such gateway")
	}
	table, err := gateway.NewTable(&c.config, gateway.MTUs{Overlay: 1450, Tunnel: 1390}, nil)
	if err != nil {
		return nil, err
	}
	a, err := localsocket.TraceTable(gateway.NewTracer(table), q, start)
	if err != nil {
		return nil, err
	}
	a.Cluster, a.Remote, a.Links = c.ID, c.config.Remote.Cluster, c.links
	if c.changed != nil {
		c.changed(a)
	}
	return a, nil
}

// ask is the default request of these tests, changed by edits.
func ask(edits ...func(*Question)) Question {
	q := Question{Namespace: "default", Pod: "web", To: netip.MustParseAddr("10.71.2.9"), Port: 80, Protocol: gateway.TCP}
	for _, edit := range edits {
		edit(&q)
	}
	return q
}

func (w *fixture) run(t *testing.T, q Question) *Report {
	t.Helper()
	r, err := Run(t.Context(), q, &w.a.Side, &w.b.Side, start)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
