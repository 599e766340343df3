//go:build apiserver

package chart

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller"
	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/ports"
	"strait.dev/strait/test/program"
)

// addMixedNodes adds nodes that run node helpers, one of which is excluded from load balancers,
// and others that do not. It returns the names of the former.
func addMixedNodes(t *testing.T, cluster *kube.Cluster) (machines []string) {
	t.Helper()
	refuses := func(key string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Value: "true", Effect: effect}
	}
	addNode(t, cluster, 1, "node-1", nil)
	addNode(t, cluster, 2, "node-2", nil)
	addNode(t, cluster, 3, "control-plane", map[string]string{corev1.LabelNodeExcludeBalancers: ""}, refuses("node-role.kubernetes.io/control-plane", corev1.TaintEffectNoSchedule))
	addNode(t, cluster, 4, "windows", map[string]string{corev1.LabelOSStable: "windows"})
	addNode(t, cluster, 5, "aci", map[string]string{"type": "virtual-kubelet"}, refuses("virtual-kubelet.io/provider", corev1.TaintEffectNoSchedule))
	addNode(t, cluster, 6, "aci-without-taint", map[string]string{"type": "virtual-kubelet"})
	addNode(t, cluster, 7, "liqo", map[string]string{"type": "virtual-node", "liqo.io/type": "virtual-node"}, refuses("virtual-node.liqo.io/not-allowed", corev1.TaintEffectNoExecute))
	addNode(t, cluster, 8, "fargate", map[string]string{"eks.amazonaws.com/compute-type": "fargate"}, refuses("eks.amazonaws.com/compute-type", corev1.TaintEffectNoSchedule))
	return []string{"control-plane", "node-1", "node-2"}
}

// With Kubernetes' own scheduler and controllers, and nodes of all kinds: helm install --wait
// succeeds, node helpers and NodeAttachments are on machines that run Linux only, no alert
// misses a helper elsewhere, and gateways and their entry points are on such nodes as well.
func TestNodesWithoutHelpersDoNotDisturbAnInstallation(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t)
	machines := addMixedNodes(t, cluster)
	startKubelets(t, cluster, "aci", "aci-without-taint", "liqo", "fargate")
	access := []string{"KUBECONFIG=" + program.Kubeconfig(t, t.TempDir(), "admin", cluster.Admin())}
	if out, err := helm(t, access, "install", "strait", folder, "--namespace", release, "--create-namespace", "--wait", "--timeout", "5m"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	set, err := cluster.Kubernetes().AppsV1().DaemonSets("strait-nodes").Get(t.Context(), "strait-node", metav1.GetOptions{})
	must(t, err)
	if is := set.Status; int(is.DesiredNumberScheduled) != len(machines) || int(is.NumberReady) != len(machines) {
		t.Errorf("of %d node helpers, %d are ready, want %d", is.DesiredNumberScheduled, is.NumberReady, len(machines))
	}
	helpers := nodesOf(t, cluster, "strait-nodes")
	if !slices.Equal(helpers, machines) {
		t.Errorf("node helpers run on %q, want %q", helpers, machines)
	}

	listen := ports.Address(t)
	run(t, cluster, find(t, render(t), "ConfigMap", "strait-controller"), func(o *controller.Options) { o.Listen = listen })
	admin, err := client.New(cluster.Admin())
	must(t, err)
	kube.Until(t, "NodeAttachments of these nodes alone", func() string {
		list, err := admin.NodeAttachments().List(t.Context(), metav1.ListOptions{})
		must(t, err)
		var attached []string
		for _, a := range list.Items {
			attached = append(attached, a.Name)
		}
		slices.Sort(attached)
		if !slices.Equal(attached, machines) {
			return fmt.Sprintf("%q", attached)
		}
		return ""
	})
	checkHelperAlerts(t, "http://"+listen+"/metrics", helpers)

	_, err = admin.Peerings().Create(t.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{
		ClusterID: "b", Gateway: v1alpha1.GatewaySpec{Replicas: 3, Service: v1alpha1.GatewayService{Type: corev1.ServiceTypeNodePort}},
	}}, metav1.CreateOptions{})
	must(t, err)
	kube.Until(t, "all gateways have entry points", func() string {
		peering, err := admin.Peerings().Get(t.Context(), "b", metav1.GetOptions{})
		must(t, err)
		if len(peering.Status.Gateways) != 3 {
			return fmt.Sprintf("%d gateways", len(peering.Status.Gateways))
		}
		for _, g := range peering.Status.Gateways {
			at := []string{}
			for _, e := range g.Endpoints {
				host, _, _ := strings.Cut(string(e), ":")
				at = append(at, host)
			}
			slices.Sort(at)
			if g.Node == "" || !slices.Equal(at, []string{"192.0.2.1", "192.0.2.2"}) {
				return fmt.Sprintf("gateway %s on node %q has %q, want those of node-1 and node-2", g.Name, g.Node, at)
			}
		}
		return ""
	})
	if is := nodesOf(t, cluster, "strait-gateways"); slices.ContainsFunc(is, func(name string) bool { return name != "node-1" && name != "node-2" }) {
		t.Errorf("gateways run on %q", is)
	}
}

// nodesOf returns the nodes of the pods of a namespace, sorted.
func nodesOf(t *testing.T, cluster *kube.Cluster, namespace string) (names []string) {
	t.Helper()
	pods, err := cluster.Kubernetes().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, p := range pods.Items {
		names = append(names, p.Spec.NodeName)
	}
	slices.Sort(names)
	return names
}

var attachmentsLine = regexp.MustCompile(`(?m)^(strait_node_attachments\{[^}]*\}) (\d+)$`)

// checkHelperAlerts checks with the metrics page of the controller and those of node helpers
// that Prometheus does not miss a helper, and that it would miss the last of them.
func checkHelperAlerts(t *testing.T, page string, helpers []string) {
	t.Helper()
	type sample struct {
		Labels string `json:"labels"`
		Value  int    `json:"value"`
	}
	var series []map[string]string
	kube.Until(t, "the controller counts NodeAttachments", func() string {
		answer, err := http.Get(page)
		must(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		must(t, err)
		series = nil
		for _, m := range attachmentsLine.FindAllStringSubmatch(string(text), -1) {
			series = append(series, map[string]string{"series": m[1], "values": m[2] + "x30"})
		}
		if len(series) != 2 {
			return fmt.Sprintf("%d series", len(series))
		}
		return ""
	})
	for _, node := range helpers {
		series = append(series, map[string]string{"series": fmt.Sprintf("strait_node_attached{node=%q}", node), "values": "1x30"})
	}
	const missing = `ALERTS{alertname="StraitNodeHelperMissing",alertstate="firing"}`
	test := func(series []map[string]string, want ...sample) map[string]any {
		return map[string]any{"interval": "1m", "input_series": series, "promql_expr_test": []map[string]any{{"expr": missing, "eval_time": "20m", "exp_samples": want}}}
	}
	rules, err := filepath.Abs(filepath.Join(folder, "rules/strait.yaml"))
	must(t, err)
	text, err := json.Marshal(map[string]any{"rule_files": []string{rules}, "evaluation_interval": "1m", "tests": []any{
		test(series),
		test(series[:len(series)-1], sample{`ALERTS{alertname="StraitNodeHelperMissing",alertstate="firing",severity="warning"}`, 1}),
	}})
	must(t, err)
	file := filepath.Join(t.TempDir(), "helpers.test.yaml")
	must(t, os.WriteFile(file, text, 0o600))
	if out, err := exec.CommandContext(t.Context(), kube.Program(t, "promtool"), "test", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, out, text)
	}
}
