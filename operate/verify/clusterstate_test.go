package verify

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/operate/operator"
)

func TestTheOtherNodeHasNoGateway(t *testing.T) {
	p := &v1alpha1.Peering{Status: v1alpha1.PeeringStatus{Gateways: []v1alpha1.GatewayStatus{{Node: "n1"}, {Node: "n2"}}}}
	for want, nodes := range map[string][]string{"n3": {"n1", "n2", "n3", "n4"}, "n4": {"n4", "n3"}, "": {"n2"}} {
		if is := otherNode(nodes, p); is != want {
			t.Errorf("of %q: %q, want %q", nodes, is, want)
		}
	}
}

// states are two clusters with the same pod range, each of which sees the other's
// elsewhere.
func states() (a, b *clusterState) {
	network := &v1alpha1.ClusterNetwork{}
	network.Status.PodCIDRs = []v1alpha1.CIDR{"10.0.0.0/16"}
	network.Status.ServiceCIDRs = []v1alpha1.CIDR{"10.96.0.0/16"}
	network.Spec.InternalCIDRs = []v1alpha1.CIDR{"10.80.0.0/16"}
	make := func(id, pods, others, underlay, endpoint string) *clusterState {
		p := &v1alpha1.Peering{Status: v1alpha1.PeeringStatus{
			Prefixes:         []v1alpha1.SeenPrefix{{CIDR: "10.0.0.0/16", SeenAs: v1alpha1.CIDR(pods)}},
			ExternalPrefixes: []v1alpha1.SeenPrefix{{CIDR: "10.70.0.0/16", SeenAs: v1alpha1.CIDR(others)}},
			Gateways:         []v1alpha1.GatewayStatus{{Name: "g", Node: "n1", PodAddresses: []v1alpha1.IP{"10.0.1.3"}}},
		}}
		reports := []v1alpha1.GatewayReport{{Status: v1alpha1.GatewayReportStatus{Links: []v1alpha1.LinkStatus{{Endpoint: v1alpha1.Endpoint(endpoint)}}}}}
		return &clusterState{reports: reports, Side: &operator.Side{Network: network, Peering: p}, id: id, gateway: "n1", attachments: []v1alpha1.NodeAttachment{{
			ObjectMeta: metav1.ObjectMeta{Name: "n1"},
			Spec:       v1alpha1.NodeAttachmentSpec{UnderlayAddresses: []v1alpha1.IP{v1alpha1.IP(underlay)}, ExternalAddresses: []v1alpha1.IP{"10.70.0.11"}},
		}}}
	}
	return make("a", "10.71.0.0/16", "10.73.0.0/16", "192.0.2.21", "203.0.113.7:51840"), make("b", "10.72.0.0/16", "10.74.0.0/16", "198.51.100.21", "")
}

func TestSpotsAreSeenAsTheOtherClusterHasIt(t *testing.T) {
	a, b := states()
	pod, host := location{}, location{host: true}
	pod.seenBy(b, "a", []netip.Addr{netip.MustParseAddr("10.0.1.5"), netip.MustParseAddr("fd00::5")})
	host.seenBy(b, "a", a.external("n1"))
	if pod.seen[ip4].String() != "10.72.1.5" || host.seen[ip4].String() != "10.74.0.11" {
		t.Errorf("mapped to %v and %v, want 10.72.1.5 and 10.74.0.11", pod.seen[ip4], host.seen[ip4])
	}
	if pod.seen[ip6].IsValid() || !strings.Contains(pod.unseen[ip6], "fd00::5") {
		t.Errorf("an address that is not granted is mapped to %v (%s)", pod.seen[ip6], pod.unseen[ip6])
	}
	if host.seen[ip6].IsValid() || host.unseen[ip6] == "" {
		t.Error("an address that a node has not is seen, or has no reason")
	}
}

func TestWatchersKnowWhoseAddressesAreWhose(t *testing.T) {
	a, b := states()
	o := watchOrder(a, b, "n1", [16]byte{1})
	for text, want := range map[string][]netip.Prefix{
		"192.0.2.21/32": o.Own, "10.0.0.0/16": o.Own, "10.0.1.3/32": o.Own, "10.96.0.0/16": o.Own, "10.80.0.0/16": o.Own,
		"203.0.113.7/32": o.Foreign, "198.51.100.21/32": o.Foreign,
	} {
		if !slices.Contains(want, netip.MustParsePrefix(text)) {
			t.Errorf("%s is not where it belongs: own %v, foreign %v", text, o.Own, o.Foreign)
		}
	}
	if len(o.Node) != 1 || o.Node[0].String() != "192.0.2.21" {
		t.Errorf("the node's addresses are %v", o.Node)
	}
	b.attachments = append(b.attachments, a.attachments...) // networks that are alike
	if o := watchOrder(a, b, "n1", [16]byte{1}); slices.Contains(o.Foreign, netip.MustParsePrefix("192.0.2.21/32")) {
		t.Error("an address of this cluster is taken for the other's")
	}
}

func TestGatewaysThatANodeDoesNotReachAreNamed(t *testing.T) {
	p := &v1alpha1.Peering{Status: v1alpha1.PeeringStatus{Gateways: []v1alpha1.GatewayStatus{{Name: "b-0"}, {Name: "b-1"}}}}
	attached := func(name string, gateways ...v1alpha1.NodeGateway) v1alpha1.NodeAttachment {
		return v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.NodeAttachmentStatus{Gateways: gateways}}
	}
	checks := reachable("a", p, []v1alpha1.NodeAttachment{
		attached("n1", v1alpha1.NodeGateway{Name: "b-0", Ready: true}, v1alpha1.NodeGateway{Name: "b-1", Ready: true}),
		attached("n2", v1alpha1.NodeGateway{Name: "b-0", Ready: true}, v1alpha1.NodeGateway{Name: "b-1", Message: "no answer"}),
		attached("n3", v1alpha1.NodeGateway{Name: "b-0", Ready: true}),
	})
	if len(checks) != 2 || checks[0].Outcome != Passed || checks[1].Outcome != Failed {
		t.Fatalf("%+v, want the second gateway alone to fail", checks)
	}
	for _, want := range []string{"n2 (no answer)", "n3"} {
		if !strings.Contains(checks[1].Detail, want) {
			t.Errorf("%q does not name %s", checks[1].Detail, want)
		}
	}
}

func TestAPeeringThatIsNotReadyFailsWithWhatIsMissing(t *testing.T) {
	is, up := judgePeering("a", operator.PeeringReport{Name: "b", Missing: "no handshake", Links: []operator.Link{{}}})
	if is.Outcome != Failed || is.Detail != "no handshake" || is.Remedy == "" || up {
		t.Errorf("%+v, up %v", is, up)
	}
	if is, up := judgePeering("a", operator.PeeringReport{Name: "b", Ready: true, Links: []operator.Link{{Up: true}, {}}}); is.Outcome != Passed || !up {
		t.Errorf("%+v, up %v", is, up)
	}
}
