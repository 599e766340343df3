package agents

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// An agent tolerates all taints, also those of virtual nodes. It names these nodes: GKE
// Autopilot refuses a node affinity with labels that it does not know.
func TestAnAgentForAnyNodeRunsOnNoVirtualNode(t *testing.T) {
	names := virtual([]corev1.Node{node("n1"), node("aci", labelled("type", "virtual-kubelet")), node("liqo", labelled("liqo.io/type", "virtual-node"))})
	terms := (Agent{Name: "a"}).pod(Options{Image: "i"}, names).Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 0 {
		t.Fatalf("the terms are %+v", terms)
	}
	var avoided []string
	for _, r := range terms[0].MatchFields {
		if r.Key == "metadata.name" && r.Operator == corev1.NodeSelectorOpNotIn && len(r.Values) == 1 { // Kubernetes demands one value
			avoided = append(avoided, r.Values[0])
		}
	}
	if !slices.Equal(avoided, []string{"aci", "liqo"}) {
		t.Errorf("%+v avoids %q", terms, avoided)
	}
	if pod := (Agent{Name: "a"}).pod(Options{Image: "i"}, nil); pod.Spec.Affinity != nil {
		t.Errorf("%+v, want no affinity of an agent that may run anywhere", pod.Spec.Affinity)
	}
}
