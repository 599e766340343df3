package agents

import (
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// node is a node that is ready, unless change says otherwise.
func node(name string, change ...func(*corev1.Node)) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "linux"}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, c := range change {
		c(&n)
	}
	return n
}

func labelled(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Labels[key] = value }
}

func attachments(names ...string) (all []v1alpha1.NodeAttachment) {
	for _, name := range names {
		all = append(all, v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return all
}

func TestPodsTakePartInPeeringsOnAttachedNodes(t *testing.T) {
	taint := func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Effect: corev1.TaintEffectNoSchedule}} }
	down := func(n *corev1.Node) { n.Status.Conditions = nil }
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	aci, windows := labelled("type", "virtual-kubelet"), labelled(corev1.LabelOSStable, "windows")
	for name, c := range map[string]struct {
		nodes        []corev1.Node
		attached     []v1alpha1.NodeAttachment
		withoutNodes bool
		want         []string
	}{
		"by name":                    {[]corev1.Node{node("n2"), node("n1")}, attachments("n1", "n2"), false, []string{"n1", "n2"}},
		"taints last":                {[]corev1.Node{node("a", taint), node("n1")}, attachments("a", "n1"), false, []string{"n1", "a"}},
		"a virtual node, no taint":   {[]corev1.Node{node("aci", aci), node("n1")}, attachments("n1"), false, []string{"n1"}},
		"left out by node.affinity":  {[]corev1.Node{node("edge"), node("n1")}, attachments("n1"), false, []string{"n1"}},
		"not ready, cordoned":        {[]corev1.Node{node("d", down), node("e", cordoned)}, attachments("d", "e"), false, nil},
		"without node helpers":       {[]corev1.Node{node("aci", aci), node("n1"), node("w", windows)}, nil, true, []string{"n1"}},
		"no node is attached so far": {[]corev1.Node{node("n1")}, nil, false, nil},
	} {
		if is := Joined(c.nodes, c.attached, c.withoutNodes); !slices.Equal(is, c.want) {
			t.Errorf("%s: %q, want %q", name, is, c.want)
		}
	}
}

// An agent tolerates all taints, also those of virtual nodes.
func TestAnAgentForAnyNodeRunsOnNoVirtualNode(t *testing.T) {
	affinity := (Agent{Name: "a"}).pod(Options{Image: "i"}).Spec.Affinity.NodeAffinity
	if is := affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms; len(is) != 1 || !slices.EqualFunc(is[0].MatchExpressions, machines, equal) {
		t.Errorf("the affinity is %+v", affinity)
	}
}

func equal(a, b corev1.NodeSelectorRequirement) bool {
	return a.Key == b.Key && a.Operator == b.Operator && slices.Equal(a.Values, b.Values)
}

func TestTheChartLeavesOutVirtualNodes(t *testing.T) {
	text, err := os.ReadFile("../../charts/strait/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values struct {
		Node struct{ Affinity corev1.Affinity }
	}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	terms := values.Node.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for _, want := range machines {
		if !slices.ContainsFunc(terms[0].MatchExpressions, func(is corev1.NodeSelectorRequirement) bool { return equal(is, want) }) {
			t.Errorf("node.affinity lacks %+v", want)
		}
	}
}

func TestNodesOfVirtualKubeletsAreVirtual(t *testing.T) {
	for name, c := range map[string]struct {
		node corev1.Node
		want bool
	}{
		"a machine":                 {node("n"), false},
		"a type of its own":         {node("n", labelled("type", "gpu"), labelled(corev1.LabelInstanceTypeStable, "m5.large")), false},
		"Azure Container Instances": {node("n", labelled("type", "virtual-kubelet")), true},
		"interLink":                 {node("n", labelled("type", "virtual-node")), true},
		"Liqo":                      {node("n", labelled("liqo.io/type", "virtual-node")), true},
		"Admiralty":                 {node("n", labelled("virtual-kubelet.io/provider", "admiralty")), true},
		"an empty provider":         {node("n", labelled("virtual-kubelet.io/provider", "")), true},
		"a super node":              {node("n", labelled(corev1.LabelInstanceTypeStable, "eklet")), true},
	} {
		if is := IsVirtual(&c.node); is != c.want {
			t.Errorf("%s: %v, want %v", name, is, c.want)
		}
	}
}
