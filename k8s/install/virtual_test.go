package install

import (
	"os"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func node(labels ...string) (n corev1.Node) {
	n.ObjectMeta = metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelOSStable: "linux"}}
	for i := 0; i < len(labels); i += 2 {
		n.Labels[labels[i]] = labels[i+1]
	}
	return n
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
	for _, want := range NotVirtual() {
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
		"a machine":                 {node(), false},
		"a type of its own":         {node("type", "gpu", corev1.LabelInstanceTypeStable, "m5.large"), false},
		"Azure Container Instances": {node("type", "virtual-kubelet"), true},
		"interLink":                 {node("type", "virtual-node"), true},
		"Liqo":                      {node("liqo.io/type", "virtual-node"), true},
		"Admiralty":                 {node("virtual-kubelet.io/provider", "admiralty"), true},
		"an empty provider":         {node("virtual-kubelet.io/provider", ""), true},
		"a super node":              {node(corev1.LabelInstanceTypeStable, "eklet"), true},
	} {
		if is := IsVirtual(&c.node); is != c.want {
			t.Errorf("%s: %v, want %v", name, is, c.want)
		}
	}
}
