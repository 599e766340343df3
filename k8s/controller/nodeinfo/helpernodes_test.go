package nodeinfo_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/controller/nodeinfo"
	"strait.dev/strait/k8s/controller/values"
	"strait.dev/strait/k8s/controller/workload"
	"strait.dev/strait/k8s/peering"
)

// chartHelpers returns where the node helpers of the chart run, with its default values.
func chartHelpers(t *testing.T) *nodeinfo.Helpers {
	t.Helper()
	text, err := os.ReadFile("../../../charts/strait/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var chart struct{ Node map[string]any }
	if err := yaml.Unmarshal(text, &chart); err != nil {
		t.Fatal(err)
	}
	spec := make(map[string]any)
	for _, field := range []string{"nodeSelector", "tolerations", "affinity"} {
		spec[field] = chart.Node[field]
	}
	text, err = yaml.Marshal(map[string]any{"spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	return helpersOf(t, string(text))
}

func helpersOf(t *testing.T, template string) *nodeinfo.Helpers {
	t.Helper()
	parsed, err := values.ParseTemplate([]byte(template))
	if err != nil {
		t.Fatal(err)
	}
	h, err := nodeinfo.NewHelpers(parsed)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// labelled returns a node with labels like "a=b".
func labelled(name string, labels ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: make(map[string]string)}}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		node.Labels[key] = value
	}
	return node
}

func TestNodesWithoutAKernelOfTheirOwnHaveNoHelper(t *testing.T) {
	const linux = "kubernetes.io/os=linux"
	h := chartHelpers(t)
	for _, c := range []struct {
		node *corev1.Node
		want bool
	}{
		{labelled("linux", linux), true},
		{labelled("a control plane", linux, "node-role.kubernetes.io/control-plane="), true},
		{labelled("a type of its own", linux, "type=gpu", "node.kubernetes.io/instance-type=m5.large", "eks.amazonaws.com/compute-type=ec2"), true},
		{labelled("windows", "kubernetes.io/os=windows"), false},
		{labelled("azure container instances", linux, "type=virtual-kubelet"), false},
		{labelled("liqo", linux, "liqo.io/type=virtual-node"), false},
		{labelled("interlink", linux, "type=virtual-node"), false},
		{labelled("fargate", linux, "eks.amazonaws.com/compute-type=fargate"), false},
		{labelled("admiralty", linux, "virtual-kubelet.io/provider=admiralty"), false},
		{labelled("tencent super node", linux, "node.kubernetes.io/instance-type=eklet"), false},
	} {
		trimmed, err := h.Essentials(c.node)
		if err != nil {
			t.Fatal(err)
		}
		if got := h.RunOn(trimmed.(*corev1.Node), false); got != c.want {
			t.Errorf("%s: a helper runs: %v, want %v", c.node.Name, got, c.want)
		}
	}
}

func TestHelpersRunWhereKubernetesRunsTheirDaemonSet(t *testing.T) {
	tainted := func(key string, effect corev1.TaintEffect, labels ...string) *corev1.Node {
		node := labelled("n", labels...)
		node.Spec.Taints = []corev1.Taint{{Key: key, Value: "v", Effect: effect}}
		return node
	}
	const affinity = "spec: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: "
	for _, c := range []struct {
		what, template  string
		node            *corev1.Node
		attached, stays bool // whether a new node is attached, and whether an attached one stays
	}{
		{"no template", "{}", labelled("n"), true, true},
		{"a node selector", "spec: {nodeSelector: {role: worker}}", labelled("n", "role=edge"), false, false},
		{"one of two terms", affinity + "[{matchExpressions: [{key: a, operator: Exists}]}, {matchExpressions: [{key: b, operator: In, values: [x, z]}]}]}}}}", labelled("n", "b=x"), true, true},
		{"none of two terms", affinity + "[{matchExpressions: [{key: a, operator: Exists}]}, {matchExpressions: [{key: b, operator: In, values: [x, z]}]}]}}}}", labelled("n", "b=w"), false, false},
		{"all expressions of a term", affinity + "[{matchExpressions: [{key: a, operator: Exists}, {key: b, operator: DoesNotExist}]}]}}}}", labelled("n", "a=1", "b=1"), false, false},
		{"numbers", affinity + "[{matchExpressions: [{key: cores, operator: Gt, values: ['4']}]}]}}}}", labelled("n", "cores=8"), true, true},
		{"a name", affinity + "[{matchFields: [{key: metadata.name, operator: NotIn, values: [node-1]}]}]}}}}", labelled("node-1"), false, false},
		{"an empty term", affinity + "[{}]}}}}", labelled("n"), false, false},
		{"a taint without toleration", "{}", tainted("dedicated", corev1.TaintEffectNoSchedule), false, true},
		{"a taint that evicts", "{}", tainted("dedicated", corev1.TaintEffectNoExecute), false, false},
		{"a taint of low preference", "{}", tainted("dedicated", corev1.TaintEffectPreferNoSchedule), true, true},
		{"a cordoned node", "{}", tainted(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule), true, true},
		{"a node that is not ready", "{}", tainted(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute), true, true},
		{"all taints tolerated", "spec: {tolerations: [{operator: Exists}]}", tainted("dedicated", corev1.TaintEffectNoExecute), true, true},
		{"its value tolerated", "spec: {tolerations: [{key: dedicated, value: v}]}", tainted("dedicated", corev1.TaintEffectNoExecute), true, true},
		{"another value tolerated", "spec: {tolerations: [{key: dedicated, value: w}]}", tainted("dedicated", corev1.TaintEffectNoExecute), false, false},
	} {
		h := helpersOf(t, c.template)
		trimmed, err := h.Essentials(c.node)
		if err != nil {
			t.Fatal(err)
		}
		node := trimmed.(*corev1.Node)
		if is, stays := h.RunOn(node, false), h.RunOn(node, true); is != c.attached || stays != c.stays {
			t.Errorf("%s: attached %v, stays %v, want %v and %v", c.what, is, stays, c.attached, c.stays)
		}
	}
	for _, wrong := range []string{
		affinity + "[{matchExpressions: [{key: cores, operator: Gt, values: [many]}]}]}}}}",
		affinity + "[{matchExpressions: [{key: a, operator: Is, values: [b]}]}]}}}}",
	} {
		parsed, err := values.ParseTemplate([]byte(wrong))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nodeinfo.NewHelpers(parsed); err == nil || !strings.Contains(err.Error(), "node affinity, key ") {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestVirtualNodesAreNoEntryPoints(t *testing.T) {
	names := func(nodes []*corev1.Node) (all []string) {
		for _, n := range nodes {
			all = append(all, n.Name)
		}
		return all
	}
	const linux = "kubernetes.io/os=linux"
	fargate := labelled("fargate")
	fargate.Spec.ProviderID = "aws:///eu-west-1a/x/fargate-ip-10-1-0-7"
	all := []*corev1.Node{labelled("linux", linux), labelled("windows", "kubernetes.io/os=windows"), labelled("aci", linux, "type=virtual-kubelet"), fargate}
	h := chartHelpers(t)
	if got := names(workload.Forwarding(h, all, "linux")); !slices.Equal(got, []string{"linux"}) {
		t.Errorf("entry points: %q", got)
	}
	if got := names(workload.Forwarding(h, all, "fargate")); !slices.Equal(got, []string{"linux"}) {
		t.Errorf("entry points of a gateway on Fargate: %q", got)
	}
	edge := helpersOf(t, "spec: {nodeSelector: {role: worker}}")
	if got := names(workload.Forwarding(edge, []*corev1.Node{labelled("worker", "role=worker"), labelled("edge", "role=edge")}, "edge")); !slices.Equal(got, []string{"worker", "edge"}) {
		t.Errorf("entry points of a gateway on a node without helper: %q", got)
	}
}

func TestNoHelperRunsOnAVirtualNode(t *testing.T) {
	var all *nodeinfo.Helpers
	kept, err := all.Essentials(labelled("b", peering.Label+"=b"))
	if err != nil || all.RunOn(kept.(*corev1.Node), false) {
		t.Errorf("a node helper runs on it, %v", err)
	}
}
