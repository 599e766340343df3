package workload

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// aService is that of gateway b-0.
func aService(t corev1.ServiceType, ingress ...corev1.LoadBalancerIngress) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "b-0", Labels: map[string]string{PeeringLabel: "b"}},
		Spec:       corev1.ServiceSpec{Type: t, Ports: []corev1.ServicePort{{Port: 51840, NodePort: 30100}}, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}},
		Status:     corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: ingress}},
	}
}

// aNode has internal addresses, and external ones that begin with '+'. It is ready,
// unless it has the address "down".
func aNode(name string, addresses ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	for _, text := range addresses {
		address, external := strings.CutPrefix(text, "+")
		switch {
		case text == "down":
			ready.Status = corev1.ConditionUnknown
		case external:
			node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: address})
		default:
			node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
		}
	}
	node.Status.Conditions = append(node.Status.Conditions, ready)
	return node
}

// excluded labels a node as no target of load balancers, as kubeadm labels control planes.
func excluded(node *corev1.Node) *corev1.Node {
	node.Labels = map[string]string{corev1.LabelNodeExcludeBalancers: ""}
	return node
}

var peeringB = &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}}

func TestEndpointsAreWhereTheServiceCanBeCalled(t *testing.T) {
	foreign := aService(corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: "198.51.100.9"})
	foreign.Labels = nil
	dual := aService(corev1.ServiceTypeNodePort)
	dual.Spec.IPFamilies = append(dual.Spec.IPFamilies, corev1.IPv6Protocol)
	local := aService(corev1.ServiceTypeNodePort)
	local.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	external := aService(corev1.ServiceTypeClusterIP)
	external.Spec.ExternalIPs = []string{"198.51.100.7", "2001:db8::7"}
	var many []corev1.LoadBalancerIngress
	for i := range 20 {
		many = append(many, corev1.LoadBalancerIngress{IP: fmt.Sprintf("198.51.100.%d", i+1)})
	}
	for _, c := range []struct {
		what     string
		services []*corev1.Service
		nodes    []*corev1.Node
		own      string
		want     string
	}{
		{"no Service yet", nil, nil, "", ""},
		{"another gateway's", []*corev1.Service{{ObjectMeta: metav1.ObjectMeta{Name: "b-1", Labels: map[string]string{PeeringLabel: "b"}}}}, nil, "", ""},
		{"of another peering", []*corev1.Service{foreign}, nil, "", ""},
		{"ClusterIP", []*corev1.Service{aService(corev1.ServiceTypeClusterIP)}, []*corev1.Node{aNode("n", "+198.51.100.1")}, "", ""},
		{"external addresses of its own", []*corev1.Service{external}, nil, "", "198.51.100.7:51840 [2001:db8::7]:51840"},
		{"a load balancer that is not there yet", []*corev1.Service{aService(corev1.ServiceTypeLoadBalancer)}, nil, "", ""},
		{"a load balancer", []*corev1.Service{aService(corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: "198.51.100.1"},
			corev1.LoadBalancerIngress{IP: "2001:db8::1"}, corev1.LoadBalancerIngress{Hostname: "lb.example."}, corev1.LoadBalancerIngress{IP: "198.51.100.1"})}, nil, "",
			"198.51.100.1:51840 [2001:db8::1]:51840 lb.example:51840"},
		{"a load balancer with what the API does not take", []*corev1.Service{aService(corev1.ServiceTypeLoadBalancer, corev1.LoadBalancerIngress{IP: "0.0.0.0"},
			corev1.LoadBalancerIngress{IP: "fe80::1%eth0"}, corev1.LoadBalancerIngress{IP: "::"}, corev1.LoadBalancerIngress{Hostname: "under_score.example"},
			corev1.LoadBalancerIngress{Hostname: "1.2.3.400"}, corev1.LoadBalancerIngress{Hostname: "-"}, corev1.LoadBalancerIngress{IP: "198.51.100.2"})}, nil, "",
			"198.51.100.2:51840"},
		{"node ports: its own node first, external addresses before internal ones", []*corev1.Service{dual},
			[]*corev1.Node{aNode("n1", "192.0.2.1", "+198.51.100.1"), aNode("n2", "192.0.2.2", "2001:db8::2"), aNode("n3", "192.0.2.3", "down")},
			"n2",
			"192.0.2.2:30100 [2001:db8::2]:30100 198.51.100.1:30100"},
		{"node ports: no node that is excluded from load balancers", []*corev1.Service{aService(corev1.ServiceTypeNodePort)},
			[]*corev1.Node{aNode("n1", "192.0.2.1"), excluded(aNode("n2", "192.0.2.2")), excluded(aNode("n3", "192.0.2.3"))}, "n2", "192.0.2.1:30100"},
		{"node ports: its own excluded node if there is no other", []*corev1.Service{aService(corev1.ServiceTypeNodePort)},
			[]*corev1.Node{excluded(aNode("n1", "192.0.2.1")), excluded(aNode("n2", "192.0.2.2"))}, "n2", "192.0.2.2:30100"},
		{"node ports with policy Local: its own node, even if that is excluded", []*corev1.Service{local},
			[]*corev1.Node{aNode("n1", "192.0.2.1"), excluded(aNode("n2", "192.0.2.2"))}, "n2", "192.0.2.2:30100"},
		{"node ports of one IP family", []*corev1.Service{aService(corev1.ServiceTypeNodePort)},
			[]*corev1.Node{aNode("n1", "2001:db8::1", "192.0.2.1"), aNode("n2", "2001:db8::2")}, "n1", "192.0.2.1:30100"},
		{"node ports with policy Local: only its own node accepts packets", []*corev1.Service{local},
			[]*corev1.Node{aNode("n1", "192.0.2.1"), aNode("n2", "192.0.2.2")}, "n2", "192.0.2.2:30100"},
		{"node ports with policy Local, while the gateway has no node", []*corev1.Service{local},
			[]*corev1.Node{aNode("n1", "192.0.2.1")}, "", "192.0.2.1:30100"},
		{"node ports: its own node, whatever that says of itself", []*corev1.Service{aService(corev1.ServiceTypeNodePort)},
			[]*corev1.Node{aNode("n3", "192.0.2.3", "down")}, "n3", "192.0.2.3:30100"},
	} {
		before := fmt.Sprint(c.services, c.nodes, c.own)
		var got []string
		for _, e := range EndpointsOf(peeringB, "b-0", c.services, c.nodes, c.own) {
			got = append(got, string(e))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %s", c.what, got, c.want)
		}
		if fmt.Sprint(c.services, c.nodes, c.own) != before {
			t.Errorf("%s: the lists have changed", c.what)
		}
	}
	if got := EndpointsOf(peeringB, "b-0", []*corev1.Service{aService(corev1.ServiceTypeLoadBalancer, many...)}, nil, ""); len(got) != maxEndpoints || got[15] != "198.51.100.16:51840" {
		t.Errorf("of many addresses: %q", got)
	}
}

// Endpoints hardly change with the order of lists, or when other nodes are added and
// removed.
func TestEndpointsDoNotFlap(t *testing.T) {
	var nodes []*corev1.Node
	for i := range 50 {
		nodes = append(nodes, aNode(fmt.Sprintf("node-%d", i), fmt.Sprintf("192.0.2.%d", i+1)))
	}
	services, own := []*corev1.Service{aService(corev1.ServiceTypeNodePort)}, "node-7"
	first := EndpointsOf(peeringB, "b-0", services, nodes, own)
	if len(first) != 1+otherNodes || first[0] != "192.0.2.8:30100" {
		t.Fatalf("endpoints %q", first)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		if got := EndpointsOf(peeringB, "b-0", services, nodes, own); !slices.Equal(got, first) {
			t.Fatalf("in another order: %q, before %q", got, first)
		}
	}
	for i := range nodes {
		fewer := slices.Delete(slices.Clone(nodes), i, i+1)
		changed := 0
		for _, e := range EndpointsOf(peeringB, "b-0", services, fewer, own) {
			if !slices.Contains(first, e) {
				changed++
			}
		}
		if changed > 1 {
			t.Errorf("without %s, %d endpoints are others", nodes[i].Name, changed)
		}
	}
	other := aService(corev1.ServiceTypeNodePort)
	other.Name = "b-1"
	if got := EndpointsOf(peeringB, "b-1", []*corev1.Service{other}, nodes, own); slices.Equal(got, first) {
		t.Errorf("two gateways on a node both have %q", got)
	}
}
