package controller_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func TestTheClusterIsDetected(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.node("node-2", "192.0.2.22", "10.0.1.0/24")
		f.lead()
		var is *v1alpha1.ClusterNetwork
		f.until("ClusterNetwork", func() string {
			var err error
			if is, err = f.ClusterNetworks().Get(t.Context(), "default", metav1.GetOptions{}); err != nil {
				return err.Error()
			}
			if !meta.IsStatusConditionTrue(is.Status.Conditions, v1alpha1.ConditionReady) {
				return fmt.Sprintf("%+v", is.Status.Conditions)
			}
			return ""
		})
		system, err := f.cluster.Kubernetes().CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
		must(t, err)
		f.untilEvents("ClusterNetwork", is, "Normal Detected Detected is True: ", "Normal Configured Ready is True: ")
		s := is.Status
		if want := "c" + string(system.UID)[:8]; string(s.ClusterID) != want {
			t.Errorf("cluster ID %s, want %s", s.ClusterID, want)
		}
		if got, want := fmt.Sprint(s.PodCIDRs, s.ServiceCIDRs, s.NodeCIDRs), "[10.0.0.0/23] [10.96.0.0/16] [192.0.2.21/32 192.0.2.22/32]"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if want := (v1alpha1.ClusterNetworkSources{ClusterID: "kube-system", PodCIDRs: "nodes", ServiceCIDRs: "ServiceCIDRs", NodeCIDRs: "nodes"}); s.Sources != want {
			t.Errorf("sources %+v, want %+v", s.Sources, want)
		}
	})
}

func TestNodesHaveAddressesForAsLongAsTheyAreThere(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.untilAttached("node-1 1 [10.80.0.1] [10.70.0.1]")
		f.node("node-2", "192.0.2.22", "10.0.1.0/24")
		f.untilAttached("node-1 1 [10.80.0.1] [10.70.0.1]", "node-2 2 [10.80.0.2] [10.70.0.2]")
		f.deleteNode("node-1")
		f.untilAttached("node-2 2 [10.80.0.2] [10.70.0.2]")
		f.untilClaims("10.70.0.2-32", "10.80.0.2-32")
		f.node("node-0", "192.0.2.20", "10.0.2.0/24")
		f.untilAttached("node-0 1 [10.80.0.1] [10.70.0.1]", "node-2 2 [10.80.0.2] [10.70.0.2]")

		a, err := f.NodeAttachments().Get(t.Context(), "node-0", metav1.GetOptions{})
		must(t, err)
		if got := fmt.Sprint(a.Spec.UnderlayAddresses, a.Spec.PodCIDRs); got != "[192.0.2.20] [10.0.2.0/24]" {
			t.Errorf("the attachment says %s of its node", got)
		}
		node, err := f.cluster.Kubernetes().CoreV1().Nodes().Get(t.Context(), "node-0", metav1.GetOptions{})
		must(t, err)
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.30"}}
		_, err = f.cluster.Kubernetes().CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
		must(t, err)
		f.until("the node's new address", func() string {
			a, err := f.NodeAttachments().Get(t.Context(), "node-0", metav1.GetOptions{})
			must(t, err)
			if got := fmt.Sprint(a.Spec.UnderlayAddresses); got != "[192.0.2.30]" {
				return got
			}
			return ""
		})
	})
}

func TestAPeeringKeepsItsViewWhateverComesLater(t *testing.T) {
	inMemory(t, func(_ *testing.T, f *fixture) {
		server := f.cluster.(memory)
		f.keepsViews(func() { server.Stop(); server.Start() })
	})
}

// keepsViews takes peerings and nodes through what may happen to them, a restart of the API
// server among it.
func (f *fixture) keepsViews(restart func()) {
	f.Helper()
	stop := f.lead()
	f.node("node-0", "192.0.2.20", "10.0.0.0/24")
	f.untilAttached("node-0 1 [10.80.0.1] [10.70.0.1]")
	f.node("node-1", "192.0.2.21", "10.0.1.0/24")
	f.untilAttached("node-0 1 [10.80.0.1] [10.70.0.1]", "node-1 2 [10.80.0.2] [10.70.0.2]")
	f.peer("c", 2, "10.0.0.0/16", "172.20.0.0/16")
	const c = "10.0.0.0/16>10.64.0.0/16 172.20.0.0/16>172.20.0.0/16 Remapped"
	f.untilSeen("c", c)
	if got := f.conflict("c").Message; got != "10.0.0.0/16 is mapped to 10.64.0.0/16: 10.0.0.0/16 overlaps this cluster's pod CIDR 10.0.0.0/23" {
		f.Errorf("the peering says: %s", got)
	}

	stop() // while it is away, another peering comes, first by name
	f.peer("b", 1, "10.0.0.0/16", "172.20.0.0/16")
	stop = f.lead()
	f.untilSeen("b", "10.0.0.0/16>10.65.0.0/16 172.20.0.0/16>10.66.0.0/16 Remapped")
	f.untilSeen("c", c)
	f.untilClaims("10.64.0.0-16", "172.20.0.0-16", "10.65.0.0-16", "10.66.0.0-16",
		"10.80.0.1-32", "10.70.0.1-32", "10.80.0.2-32", "10.70.0.2-32", // nodes
		"10.80.255.1-32", "10.80.255.2-32", "10.80.255.3-32", "10.70.0.3-32", "10.70.0.4-32", "10.70.0.5-32") // gateways

	restart()
	f.deleteNode("node-1")
	f.untilAttached("node-0 1 [10.80.0.1] [10.70.0.1]")
	f.untilSeen("c", c)
	b, err := f.Peerings().Get(f.Context(), "b", metav1.GetOptions{})
	must(f.T, err)
	if got := b.Status.Summary; got.RemoteCIDRs != "10.0.0.0/16,172.20.0.0/16" || got.SeenAs != "10.65.0.0/16,10.66.0.0/16" {
		f.Errorf("the summary is %+v", got)
	}

	must(f.T, f.Peerings().Delete(f.Context(), "c", metav1.DeleteOptions{}))
	f.untilClaims("10.65.0.0-16", "10.66.0.0-16", "10.70.0.1-32", "10.80.0.1-32", "10.70.0.5-32", "10.80.255.3-32")
	f.deleteNode("node-0") // now the pod CIDRs are not known
	f.untilClaims("10.65.0.0-16", "10.66.0.0-16", "10.70.0.5-32", "10.80.255.3-32")
	f.untilSeen("b", "10.0.0.0/16>10.65.0.0/16 172.20.0.0/16>10.66.0.0/16 Remapped")
	stop()
}

func TestGatewaysHaveNumbersAndKeepWhatTheyAppliedThemselves(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.lead()
		f.peer("b", 2, "10.1.0.0/16")
		f.untilSeen("b", "10.1.0.0/16>10.1.0.0/16 NoConflict")
		f.peer("c", 1, "10.2.0.0/16")
		f.untilSeen("c", "10.2.0.0/16>10.2.0.0/16 NoConflict")
		gateways := func(name string) (all []string) {
			peering, err := f.Peerings().Get(t.Context(), name, metav1.GetOptions{})
			must(t, err)
			for _, g := range peering.Status.Gateways {
				all = append(all, fmt.Sprint(g.Name, " ", g.Number, g.InternalAddresses, g.MTU))
			}
			return all
		}
		_, err := f.Peerings().ApplyStatus(t.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"},
			Status: v1alpha1.PeeringStatus{Gateways: []v1alpha1.GatewayStatus{{Name: "b-1", MTU: 1370}}}}, "strait-gateway-b-1")
		must(t, err)
		if got, want := fmt.Sprint(gateways("b"), gateways("c")), "[b-0 1 [10.80.255.1] 0 b-1 2 [10.80.255.2] 1370] [c-0 3 [10.80.255.3] 0]"; got != want {
			t.Errorf("gateways are\n%s, want\n%s", got, want)
		}
		f.peer("b", 1, "10.1.0.0/16")
		f.until("one gateway less", func() string {
			if got := fmt.Sprint(gateways("b")); got != "[b-0 1 [10.80.255.1] 0 b-1 0 [] 1370]" {
				return got
			}
			return ""
		})
		f.until("its claim", func() string {
			list, err := f.AddressClaims().List(t.Context(), metav1.ListOptions{})
			must(t, err)
			if slices.ContainsFunc(list.Items, func(c v1alpha1.AddressClaim) bool { return c.Spec.Owner.Name == "b-1" }) {
				return "still there"
			}
			return ""
		})
	})
}

func TestNothingIsSeenWhereThisClusterHasSomethingElse(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.lead()
		f.peer("b", 1, "10.9.0.0/16")
		f.untilSeen("b", "10.9.0.0/16>10.9.0.0/16 NoConflict")
		for seenAs, why := range map[string]string{
			"10.96.0.0/16": "10.96.0.0/16 overlaps this cluster's service CIDR 10.96.0.0/16",
			"10.0.0.0/16":  "10.0.0.0/16 overlaps this cluster's pod CIDR 10.0.0.0/24",
			"192.0.0.0/16": "192.0.0.0/16 overlaps this cluster's node CIDR 192.0.2.21/32",
			"10.80.0.0/16": "10.80.0.0/16 overlaps this cluster's internal CIDR 10.80.0.0/16",
			"10.9.0.0/16":  "10.9.0.0/16 overlaps the grant of Peering b 10.9.0.0/16",
		} {
			f.peer("c", 1, "10.5.0.0/16="+seenAs)
			f.untilSeen("c", "NotMapped")
			if got := f.conflict("c"); got.Status != metav1.ConditionTrue || !strings.Contains(got.Message, "10.5.0.0/16 is not mapped: "+why+"; ") {
				t.Errorf("%s: the condition is %s: %s", seenAs, got.Status, got.Message)
			}
		}
		f.peer("c", 1, "10.5.0.0/16=10.120.0.0/16")
		f.untilSeen("c", "10.5.0.0/16>10.120.0.0/16 NoConflict")
		f.peer("c", 1, "10.5.0.0/16=10.121.0.0/16") // withdrawn, released, and granted elsewhere
		f.untilSeen("c", "10.5.0.0/16>10.121.0.0/16 NoConflict")
		f.peer("c", 1, "10.5.0.0/16=10.121.0.0/16", "10.121.0.0/16")
		f.untilSeen("c", "10.5.0.0/16>10.121.0.0/16 10.121.0.0/16>10.64.0.0/16 Remapped")
		f.peer("c", 1, "10.5.0.0/16=10.64.0.0/16", "10.121.0.0/16") // where it sees the other already
		f.untilSeen("c", "10.121.0.0/16>10.64.0.0/16 NotMapped")
		f.peer("c", 1, "10.5.0.0/16=10.64.0.0/16", "10.121.0.0/16=10.120.0.0/16")
		f.untilSeen("c", "10.5.0.0/16>10.64.0.0/16 10.121.0.0/16>10.120.0.0/16 NoConflict")
		f.peer("c", 1)
		f.untilClaims("10.9.0.0-16", "10.70.0.1-32", "10.80.0.1-32", // node-1
			"10.70.0.2-32", "10.80.255.1-32", "10.70.0.3-32", "10.80.255.2-32")
	})
}

func TestARangeMovesWhenANodeComesToLieInIt(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.lead()
		f.peer("b", 1, "10.9.0.0/16")
		f.untilSeen("b", "10.9.0.0/16>10.9.0.0/16 NoConflict")
		f.node("node-2", "10.9.0.7", "10.0.1.0/24")
		f.untilSeen("b", "10.9.0.0/16>10.64.0.0/16 Remapped")
	})
}
