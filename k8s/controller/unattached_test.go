package controller_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/test/fakekube"
)

// known gives the CIDRs of the cluster, so that addresses are allocated.
func (f *fixture) known() {
	f.Helper()
	f.network(`{"podCIDRs": ["10.0.0.0/16"], "serviceCIDRs": ["10.96.0.0/16"]}`)
}

// nodeAt creates a node with addresses of types, like "ExternalIP 198.51.100.9".
func (f *fixture) nodeAt(name string, addresses ...string) {
	f.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, text := range addresses {
		kind, address, _ := strings.Cut(text, " ")
		node.Status.Addresses = append(node.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeAddressType(kind), Address: address})
	}
	_, err := f.cluster.Kubernetes().CoreV1().Nodes().Create(f.Context(), node, metav1.CreateOptions{})
	must(f.T, err)
}

// underlay waits until a node is attached, and returns its underlay addresses.
func (f *fixture) underlay(node string) (all []v1alpha1.IP) {
	f.Helper()
	f.until("NodeAttachment "+node, func() string {
		a, err := f.NodeAttachments().Get(f.Context(), node, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		all = a.Spec.UnderlayAddresses
		return ""
	})
	return all
}

// nodesAttached is the condition NodesAttached in a text.
func (f *fixture) nodesAttached() string {
	n, err := f.ClusterNetworks().Get(f.Context(), "default", metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	c := meta.FindStatusCondition(n.Status.Conditions, v1alpha1.ConditionNodesAttached)
	if c == nil {
		return "none"
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

func (f *fixture) untilNodesAttached(want string) {
	f.Helper()
	f.until("the condition NodesAttached", func() string {
		if is := f.nodesAttached(); !strings.HasPrefix(is, want) {
			return is
		}
		return ""
	})
}

func TestNodesWithExternalAddressesOnlyAreAttached(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.known()
		f.lead()
		f.nodeAt("edge", "ExternalIP 198.51.100.1", "Hostname edge")
		f.nodeAt("both", "ExternalIP 198.51.100.2", "InternalIP 192.0.2.2")
		f.nodeAt("six", "ExternalIP 2001:db8::3", "InternalIP fe80::1")
		f.nodeAt("twice", "InternalIP 192.0.2.4", "InternalIP ::ffff:192.0.2.4", "InternalIP 192.0.2.4")
		for node, want := range map[string]string{"edge": "[198.51.100.1]", "both": "[192.0.2.2]", "six": "[2001:db8::3]", "twice": "[192.0.2.4]"} {
			if is := fmt.Sprint(f.underlay(node)); is != want {
				t.Errorf("the underlay addresses of %s are %s, want %s", node, is, want)
			}
		}
		f.untilNodesAttached("True Attached: ")
	})
}

func TestANodeWithManyAddressesIsAttachedWithTheFirstOfEachFamily(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.known()
		f.lead()
		var many []string
		for i := range 33 {
			many = append(many, fmt.Sprintf("InternalIP 10.200.0.%d", 10+i))
		}
		f.nodeAt("gpu", append(many, "InternalIP fd00::1", "InternalIP fd00::2")...)
		is := f.underlay("gpu")
		if len(is) != 16 || is[0] != "10.200.0.10" || is[15] != "fd00::1" {
			t.Errorf("the underlay addresses are %s", is)
		}
	})
}

// A node that cannot be attached is named in a condition. No pass fails because of it, and
// others are attached.
func TestANodeThatCannotBeAttachedAffectsNoOther(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.known()
		f.lead()
		f.nodeAt("bad", "Hostname bad")
		f.node("node-1", "192.0.2.21", "")
		f.underlay("node-1")
		f.untilNodesAttached("False NotAttached: node bad: it has neither an InternalIP nor an ExternalIP")
		f.pause(10 * time.Minute)
		f.node("node-2", "192.0.2.22", "")
		f.underlay("node-2")
		stop := f.cluster.(memory).Server.Fail(func(q fakekube.Request) error {
			if q.Resource == "nodeattachments" && q.Name == "node-3" {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "NodeAttachment"}, "node-3", nil)
			}
			return nil
		})
		f.node("node-3", "192.0.2.23", "")
		f.node("node-4", "192.0.2.24", "")
		f.underlay("node-4")
		f.until("both are named", func() string {
			if is := f.nodesAttached(); !strings.Contains(is, "node bad: ") || !strings.Contains(is, "; node node-3: ") {
				return is
			}
			return ""
		})
		stop()
		f.deleteNode("bad")
		f.untilNodesAttached("True Attached: ")
		f.underlay("node-3")
		if f.logged("the pass failed") {
			t.Error("a pass failed")
		}
	})
}

func TestAnExhaustedPoolFailsNoPass(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.network(`{"internalCIDRs": ["10.80.0.0/29"], "podCIDRs": ["10.0.0.0/16"], "serviceCIDRs": ["10.96.0.0/16"]}`)
		f.lead()
		for i := range 9 {
			f.node(fmt.Sprintf("node-%d", i), fmt.Sprintf("192.0.2.%d", 20+i), "")
		}
		f.untilNodesAttached("False NotAttached: ")
		f.pause(time.Minute)
		if is := f.nodesAttached(); !strings.Contains(is, "internal") {
			t.Errorf("NodesAttached: %s", is)
		}
		if f.logged("the pass failed") {
			t.Error("a pass failed")
		}
	})
}
