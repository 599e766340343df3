package podaddresses

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

func nodeWith(name string, podCIDRs ...string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: podCIDRs}}
}

func TestPodsWithoutAnAddressOfTheirOwnCountNot(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"host network":  func(p *corev1.Pod) { p.Spec.HostNetwork = true },
		"succeeded":     func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded },
		"failed":        func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
		"not scheduled": func(p *corev1.Pod) { p.Spec.NodeName = "" },
		"no address":    func(p *corev1.Pod) { p.Status.PodIPs = nil },
	} {
		p := podOn("node-1", "x", "10.0.100.1")
		change(p)
		if _, ok := clusterPodOf(p); ok {
			t.Errorf("%s: it counts", name)
		}
	}
	p := podOn("node-1", "x", "10.0.100.1")
	p.Status.Phase = corev1.PodPending // in its init containers
	if _, ok := clusterPodOf(p); !ok {
		t.Error("a pod in its init containers does not count")
	}
}

func TestEachAddressBelongsToOnePod(t *testing.T) {
	at := func(node, name string, second int64, ending bool, addresses ...string) *clusterPod {
		p := podOn(node, name, addresses...)
		p.UID, p.CreationTimestamp = types.UID(name), metav1.Unix(second, 0)
		if ending {
			p.DeletionTimestamp = &metav1.Time{Time: time.Unix(60, 0)}
		}
		is, ok := clusterPodOf(p)
		if !ok {
			t.Fatalf("%s does not count", name)
		}
		return is
	}
	nodes := []*corev1.Node{nodeWith("node-1", "10.0.1.0/24", "fd00:10:0:1::/64"), nodeWith("node-2", "10.0.2.0/24"), nodeWith("node-4")}
	reserved := []ipam.Reserved{
		{Prefix: netip.MustParsePrefix("10.80.0.0/16"), Use: "this cluster's internal CIDR"},
		{Prefix: netip.MustParsePrefix("10.71.0.0/16"), Use: "the mapped CIDR of Peering b"},
	}
	pods := []*clusterPod{
		at("node-1", "one", 1, false, "10.0.100.0"), at("node-1", "two", 1, false, "10.0.100.1", "fd00:10:0:1::5"), at("node-1", "three", 1, false, "10.0.100.2"),
		at("node-1", "inside", 1, false, "10.0.1.5"),
		at("node-2", "ending", 1, true, "10.0.100.7"),
		at("node-1", "older", 1, false, "10.0.100.8"), at("node-2", "newer", 2, false, "10.0.100.8"),
		at("node-1", "newer-ending", 9, true, "10.0.100.9"), at("node-2", "older-staying", 1, false, "10.0.100.9"),
		at("node-1", "stale", 1, false, "10.0.100.12"), at("node-3", "unattached", 2, false, "10.0.100.12"),
		at("node-1", "strayed", 1, false, "10.0.2.7"), at("node-1", "strayed-too", 1, false, "10.0.2.8"),
		at("node-2", "impostor", 1, false, "10.80.0.1"), at("node-2", "foreign", 1, false, "10.71.0.5"),
		at("node-2", "broken", 1, false, "10.0.100.256", "10.0.100.20"), at("node-2", "local", 1, false, "169.254.1.1"),
		at("node-4", "v6", 1, false, "fd00:20::1", "10.0.100.99"),
	}
	want := "map[node-1:[10.0.100.0/31 10.0.100.2/32 10.0.100.8/32 10.0.100.12/32] node-2:[10.0.100.7/32 10.0.100.9/32 10.0.100.20/32] node-4:[10.0.100.99/32 fd00:20::1/128]]"
	problems := []string{
		"Pod default/broken: \"10.0.100.256\" is not an address; check what the node's network plugin reports",
		"Pod default/foreign: 10.71.0.5 overlaps the mapped CIDR of Peering b; use addresses for pods that are not in use",
		"Pod default/impostor: 10.80.0.1 overlaps this cluster's internal CIDR; use addresses for pods that are not in use",
		"Pod default/local: 169.254.1.1 is not an ordinary unicast address; check what the node's network plugin reports",
		"Pod default/newer: node node-2 reports the address 10.0.100.8 for it, which Pod default/older of node node-1 has already; check that node's kubelet and network plugin, and delete the pod that does not have the address",
		"node node-1: pods have addresses in the podCIDRs of other nodes, which have no routes; set the podCIDRs of the nodes to the CIDRs of their pods, or leave them empty",
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		random.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		got, _, told := podAddresses(pods, nodes, reserved, podOwners{})
		if fmt.Sprint(got) != want || !slices.Equal(told, problems) {
			t.Fatalf("got\n%v\n%s\nwant\n%v\n%s", got, strings.Join(told, "\n"), want, strings.Join(problems, "\n"))
		}
	}
}

func TestT6_ANodeKeepsTheAddressesOfItsPodsWhateverOtherNodesReport(t *testing.T) {
	pod := func(node, name string, second int64, change ...func(*corev1.Pod)) *clusterPod {
		p := podOn(node, name, "10.5.0.7", "fd00:20::7")
		p.UID, p.CreationTimestamp = types.UID(name), metav1.Unix(second, 0)
		for _, c := range change {
			c(p)
		}
		is, _ := clusterPodOf(p) // nil: it has no address
		return is
	}
	ending := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(60, 0)} }
	ended := func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }
	failed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	for name, row := range map[string]struct {
		before  []*clusterPod // of the last evaluation
		holder  string        // or the node that has the address in its attachment
		pods    []*clusterPod
		want    string
		problem bool
	}{
		"a newer mirror pod":       {[]*clusterPod{pod("good", "db", 2)}, "", []*clusterPod{pod("good", "db", 2), pod("evil", "mirror", 3)}, "good", true},
		"an older mirror pod":      {[]*clusterPod{pod("good", "db", 2)}, "", []*clusterPod{pod("good", "db", 2), pod("evil", "mirror", 1)}, "good", true},
		"after a restart":          {nil, "good", []*clusterPod{pod("good", "db", 2), pod("evil", "mirror", 1)}, "good", true},
		"reported at once":         {nil, "", []*clusterPod{pod("good", "db", 1), pod("evil", "mirror", 2)}, "good", true},
		"another pod of the node":  {[]*clusterPod{pod("good", "db", 1)}, "", []*clusterPod{pod("good", "db-again", 3), pod("evil", "mirror", 2)}, "good", true},
		"of a node that is gone":   {[]*clusterPod{pod("none", "db", 1)}, "", []*clusterPod{pod("none", "db", 1), pod("good", "next", 2)}, "good", false},
		"deleted and used again":   {[]*clusterPod{pod("evil", "first", 1)}, "", []*clusterPod{pod("good", "next", 2)}, "good", false},
		"deleted before a restart": {nil, "evil", []*clusterPod{pod("good", "next", 2)}, "good", false},
		"being deleted":            {[]*clusterPod{pod("evil", "first", 1)}, "", []*clusterPod{pod("evil", "first", 1, ending), pod("good", "next", 2)}, "good", false},
		"succeeded":                {[]*clusterPod{pod("evil", "first", 1)}, "", []*clusterPod{pod("evil", "first", 1, ended), pod("good", "next", 2)}, "good", false},
		"failed":                   {[]*clusterPod{pod("evil", "first", 1)}, "", []*clusterPod{pod("evil", "first", 1, failed), pod("good", "next", 2)}, "good", false},
	} {
		nodes := []*corev1.Node{nodeWith("good"), nodeWith("evil")}
		var holders podHolders
		holders = attachedHolders([]*v1alpha1.NodeAttachment{{ObjectMeta: metav1.ObjectMeta{Name: row.holder}, Spec: v1alpha1.NodeAttachmentSpec{PodAddresses: []v1alpha1.CIDR{"10.5.0.6/31", "fd00:20::/64"}}}})
		if row.before != nil {
			_, holders, _ = podAddresses(row.before, append(nodes, nodeWith("none")), nil, podOwners{})
		}
		for range 2 {
			slices.Reverse(row.pods)
			got, _, problems := podAddresses(slices.DeleteFunc(slices.Clone(row.pods), func(p *clusterPod) bool { return p == nil }), nodes, nil, holders)
			if want := fmt.Sprintf("map[%s:[10.5.0.7/32 fd00:20::7/128]]", row.want); fmt.Sprint(got) != want || (len(problems) == 2) != row.problem {
				t.Errorf("%s: %v with problems %q, want %s", name, got, problems, want)
			}
		}
	}
}

func TestTheAddressesOfANodeAreBounded(t *testing.T) {
	var pods []*clusterPod
	for i := range maxPodAddresses + 5 { // every second address: none can be merged
		pods = append(pods, &clusterPod{namespace: "default", name: fmt.Sprint(i), node: "node-1", addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 9, byte(i >> 7), byte(i << 1)})}})
	}
	got, _, problems := podAddresses(pods, []*corev1.Node{nodeWith("node-1")}, nil, podOwners{})
	if len(got["node-1"]) != maxPodAddresses || len(problems) != 1 || !strings.Contains(problems[0], "in 1029 separate prefixes, and only the first 1024 have routes") {
		t.Errorf("%d prefixes, %v", len(got["node-1"]), problems)
	}
}

func BenchmarkPodAddresses(b *testing.B) {
	var nodes []*corev1.Node
	var pods []*clusterPod
	for i := range 5000 {
		nodes = append(nodes, nodeWith(fmt.Sprintf("node-%d", i)))
		for n := range 20 {
			at := uint32(100<<24 | 64<<16 + i + n*5000) // each pod's address is far from those of its node
			pods = append(pods, &clusterPod{namespace: "default", name: fmt.Sprint(i, n), node: nodes[i].Name,
				addresses: []netip.Addr{netip.AddrFrom4([4]byte{byte(at >> 24), byte(at >> 16), byte(at >> 8), byte(at)})}})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if got, _, problems := podAddresses(pods, nodes, nil, podOwners{}); len(got) != 5000 || len(problems) > 0 {
			b.Fatal(len(got), problems)
		}
	}
}

func TestPodsOfVirtualNodesHaveNoRoute(t *testing.T) {
	nodes := []*corev1.Node{nodeWith("node-1", "10.0.1.0/24"), nodeWith("b", "10.0.2.0/24")}
	nodes[1].Labels = map[string]string{peering.Label: "b"}
	here, _ := clusterPodOf(podOn("node-1", "here", "10.0.100.1"))
	there, _ := clusterPodOf(podOn("b", "there", "10.71.0.5"))
	mapped := []ipam.Reserved{{Prefix: netip.MustParsePrefix("10.71.0.0/16"), Use: "the mapped CIDR of Peering b"}}
	if byNode, owners, problems := podAddresses([]*clusterPod{here, there}, nodes, mapped, podOwners{}); len(byNode) != 1 || len(owners) != 1 || len(problems) != 0 {
		t.Errorf("pods have the addresses %v, owned by %v; problems: %v", byNode, owners, problems)
	}
}
