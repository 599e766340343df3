package translate

import (
	"net/netip"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// A compromised node helper reports whatever it likes. The gateway would send the node's
// packets there, and accept them from there.
func TestT6_ANodeCannotReportTheAddressOfAnother(t *testing.T) {
	for source, want := range map[v1alpha1.IP]string{
		"192.0.2.21":    "192.0.2.21", // its own
		"10.0.1.1":      "10.0.1.1",   // of its network plugin
		"192.0.2.22":    "192.0.2.21", // another node's
		"10.80.0.12":    "192.0.2.21", // another node's on the overlay
		"10.70.0.12":    "192.0.2.21", // another node's external one
		"192.0.2.10":    "192.0.2.21", // the gateway's
		"10.80.9.9":     "192.0.2.21", // of the pool
		"10.71.0.9":     "192.0.2.21", // of the remote cluster
		"2001:db8:1::1": "2001:db8:1::1",
	} {
		node := func(name string, index int32, underlay, internal, external v1alpha1.IP) *v1alpha1.NodeAttachment {
			return &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeAttachmentSpec{
				Index: index, UnderlayAddresses: []v1alpha1.IP{underlay}, InternalAddresses: []v1alpha1.IP{internal}, ExternalAddresses: []v1alpha1.IP{external},
			}}
		}
		liar, victim := node("node-1", 1, "192.0.2.21", "10.80.0.11", "10.70.0.11"), node("node-2", 2, "192.0.2.22", "10.80.0.12", "10.70.0.12")
		liar.Status.Gateways = []v1alpha1.NodeGateway{{Name: "b-0", Source: source}}
		in := Input{
			Settings: settings(), Now: noon, Nodes: []*v1alpha1.NodeAttachment{victim, liar},
			Network: &v1alpha1.ClusterNetwork{
				Spec:   v1alpha1.ClusterNetworkSpec{InternalCIDRs: []v1alpha1.CIDR{"10.80.0.0/16"}, ExternalCIDRs: []v1alpha1.CIDR{"10.70.0.0/16"}},
				Status: v1alpha1.ClusterNetworkStatus{ClusterID: "a"},
			},
			Peering: &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"},
				Spec: v1alpha1.PeeringSpec{ClusterID: "b", Prefixes: v1alpha1.RemotePrefixes{{CIDR: "10.0.0.0/16"}}},
				Status: v1alpha1.PeeringStatus{
					Prefixes: []v1alpha1.SeenPrefix{{CIDR: "10.0.0.0/16", SeenAs: "10.71.0.0/16"}},
					Gateways: []v1alpha1.GatewayStatus{{Name: "b-0", Number: 1, InternalAddresses: []v1alpha1.IP{"10.80.0.1"}}},
				}},
		}
		c, problems := Gateway(in)
		if c == nil || len(c.Overlay.Nodes) != 2 {
			t.Fatalf("%s: %+v, %v", source, c, problems)
		}
		if got := c.Overlay.Nodes[0].Underlay; got != netip.MustParseAddr(want) {
			t.Errorf("a node that reports %s is at %s, want %s", source, got, want)
		}
		if got := c.Overlay.Nodes[1].Underlay; got != netip.MustParseAddr("192.0.2.22") {
			t.Errorf("%s: the other node is at %s", source, got)
		}
		told := false
		for _, p := range problems {
			told = told || p.Object == "NodeAttachment node-1" && strings.Contains(p.Text, "the source "+string(source)+" belongs to")
		}
		if told != (string(source) != want) {
			t.Errorf("%s: problems %v", source, problems)
		}
	}
}
