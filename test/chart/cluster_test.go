//go:build apiserver

package chart

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"k8s.io/pod-security-admission/api"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller"
	"strait.dev/strait/k8s/controller/values"
	"strait.dev/strait/k8s/controller/workload"
	"strait.dev/strait/k8s/rbac"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/operate/verify"
	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/program"
)

// warnings are the warnings of an API server about accepted requests.
type warnings struct {
	mu  sync.Mutex
	all []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, text)
}

// apply applies objects like Helm, except that an unknown field is an error. A warning
// fails the test.
func apply(t *testing.T, cluster *kube.Cluster, all []*unstructured.Unstructured) {
	t.Helper()
	config, said := cluster.Admin(), &warnings{}
	config.WarningHandler = said
	client, err := dynamic.NewForConfig(config)
	must(t, err)
	groups, err := restmapper.GetAPIGroupResources(cluster.Kubernetes().Discovery())
	must(t, err)
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	ordered := slices.Clone(all)
	slices.SortStableFunc(ordered, func(a, b *unstructured.Unstructured) int { return rank(a) - rank(b) })
	for _, object := range ordered {
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		must(t, err)
		body, err := object.MarshalJSON()
		must(t, err)
		options := metav1.PatchOptions{FieldManager: "helm", Force: new(true), FieldValidation: metav1.FieldValidationStrict}
		if object.GetAnnotations()["helm.sh/hook"] != "" {
			options.DryRun = []string{metav1.DryRunAll} // Helm creates them again each time
		}
		_, err = client.Resource(mapping.Resource).Namespace(object.GetNamespace()).Patch(t.Context(), object.GetName(), types.ApplyPatchType, body, options)
		if err != nil {
			t.Errorf("%s %s: %v", kind.Kind, object.GetName(), err)
		}
	}
	for _, text := range said.all {
		t.Errorf("the API server warns: %s", text)
	}
}

// rank is the order in which Helm installs an object, as far as it matters here.
func rank(object *unstructured.Unstructured) int {
	switch object.GetKind() {
	case "Namespace":
		return 0
	case "CustomResourceDefinition":
		return 1
	}
	return 2
}

func TestAPIServerAcceptsTheChartAndItsNextVersion(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t)
	must(t, cluster.Namespace(t.Context(), release))
	apply(t, cluster, render(t))
	apply(t, cluster, render(t, "--set", "image.tag=v2,controller.replicas=3,node.tun=true,gateway.labels.team=network"))
	apply(t, cluster, render(t, renders["minimal"]...))
}

func TestHelmInstallsUpgradesAndUninstalls(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t)
	access := []string{"KUBECONFIG=" + program.Kubeconfig(t, t.TempDir(), "admin", cluster.Admin())}
	run := func(args ...string) string {
		t.Helper()
		out, err := helm(t, access, append(args, "--namespace", release)...)
		must(t, err)
		return out
	}
	notes := run("install", "strait", folder, "--create-namespace", "--set", "imagePullSecrets[0].name=pull,crds.keep=false")
	for _, part := range []string{"strait peer --remote-context", "strait invite", "kubectl wait clusternetwork default", "Copy the image pull Secrets into the namespaces strait-gateways and strait-nodes"} {
		if !strings.Contains(notes, part) {
			t.Errorf("the notes lack %q:\n%s", part, notes)
		}
	}
	if out := run("status", "strait"); !strings.Contains(out, "deployed") {
		t.Errorf("after installing: %s", out)
	}
	run("upgrade", "strait", folder, "--set", "controller.replicas=1,crds.keep=false")
	deployment, err := cluster.Kubernetes().AppsV1().Deployments(release).Get(t.Context(), "strait-controller", metav1.GetOptions{})
	must(t, err)
	if *deployment.Spec.Replicas != 1 {
		t.Errorf("the upgrade has %d controllers", *deployment.Spec.Replicas)
	}
	if _, err := cluster.Kubernetes().PolicyV1().PodDisruptionBudgets(release).Get(t.Context(), "strait-controller", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("a single controller has a disruption budget, which blocks drains: %v", err)
	}
	cluster.AwaitCRDs(t)
	run("uninstall", "strait", "--no-hooks") // no controller runs here that a hook could wait for
	kube.Until(t, "the CRDs are deleted", func() string { return strings.Join(definitions(t, cluster), " ") })
	roles, err := cluster.Kubernetes().RbacV1().ClusterRoles().List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=strait"})
	must(t, err)
	for _, role := range roles.Items {
		t.Errorf("leftover: ClusterRole %s", role.Name)
	}
}

// Neither an uninstall nor an installation that no longer manages the CRDs deletes them, and
// with them every Peering.
func TestCRDsStayByDefault(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t)
	access := []string{"KUBECONFIG=" + program.Kubeconfig(t, t.TempDir(), "admin", cluster.Admin())}
	for _, args := range [][]string{
		{"install", "strait", folder, "--create-namespace"},
		{"upgrade", "strait", folder, "--set", "crds.install=false"},
		{"upgrade", "strait", folder},
		{"uninstall", "strait", "--no-hooks"},
	} {
		if out, err := helm(t, access, append(args, "--namespace", release)...); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		cluster.AwaitCRDs(t)
	}
	if left := definitions(t, cluster); len(left) != 8 {
		t.Errorf("the remaining CRDs are %q", left)
	}
}

// definitions returns the names of Strait's CRDs.
func definitions(t *testing.T, cluster *kube.Cluster) (names []string) {
	t.Helper()
	client, err := dynamic.NewForConfig(cluster.Admin())
	must(t, err)
	list, err := client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).
		List(t.Context(), metav1.ListOptions{})
	must(t, err)
	for _, one := range list.Items {
		if strings.HasSuffix(one.GetName(), ".strait.dev") {
			names = append(names, one.GetName())
		}
	}
	return names
}

// The controller with the account, permissions and files of the chart: its objects for a
// Peering match the values, the namespace of gateways admits the pods, and the PodMonitor
// selects them.
func TestControllerRunsWithTheChart(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t)
	must(t, cluster.Namespace(t.Context(), release))
	args := []string{"--set", "clusterNetwork.podCIDRs={10.0.0.0/16},clusterNetwork.serviceCIDRs={10.96.0.0/16},gateway.labels.team=network"}
	all := render(t, args...)
	apply(t, cluster, all)
	run(t, cluster, find(t, all, "ConfigMap", "strait-controller"))

	admin, err := client.New(cluster.Admin())
	must(t, err)
	pod := gatewayPod(t, admin)
	network, err := admin.ClusterNetworks().Get(t.Context(), "default", metav1.GetOptions{})
	must(t, err)
	if got := network.Spec.PodCIDRs; len(got) != 1 || got[0] != "10.0.0.0/16" {
		t.Errorf("pods have addresses from %v", got)
	}

	if reasons := forbidden(t, api.LevelRestricted, pod); len(reasons) > 0 {
		t.Errorf("a gateway's pod violates the restricted standard: %q", reasons)
	}
	container := pod.Spec.Containers[0]
	if !strings.HasPrefix(container.Image, "strait.dev/strait:") || container.ImagePullPolicy != corev1.PullIfNotPresent || pod.Labels["team"] != "network" ||
		pod.Spec.PriorityClassName != "system-cluster-critical" || pod.Spec.NodeSelector["kubernetes.io/os"] != "linux" {
		t.Errorf("a gateway's pod does not match the values: %+v", pod)
	}
	made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "b-0", Labels: pod.Labels}, Spec: pod.Spec}
	if _, err := admin.Pods("strait-gateways").Create(t.Context(), made, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("the namespace of gateways rejects the pod: %v", err)
	}
	loose := made.DeepCopy()
	loose.Spec.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
	if _, err := admin.Pods("strait-gateways").Create(t.Context(), loose, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsForbidden(err) {
		t.Errorf("the namespace of gateways admits NET_ADMIN: %v", err)
	}
	checkMonitored(t, pod)

	cluster.Grant(t, rbac.Verify, release, "strait-verify")
	tester, err := client.New(cluster.ServiceAccount(t, release, "strait-verify"))
	must(t, err)
	kube.Until(t, "the chart's test reports the Peering", func() string {
		report, err := verify.Short(t.Context(), operator.Cluster{Name: "this cluster", Client: tester}, nil)
		if err != nil {
			return err.Error()
		}
		if report.Passed {
			t.Error("a Peering without a pod passes")
		}
		return ""
	})
}

// run runs the chart's controller until the test ends, with changed options.
func run(t *testing.T, cluster *kube.Cluster, files *unstructured.Unstructured, changes ...func(*controller.Options)) {
	t.Helper()
	data := files.Object["data"].(map[string]any)
	pods, err := values.ParseTemplate([]byte(data["gateway-template.yaml"].(string)))
	must(t, err)
	helpers, err := values.ParseTemplate([]byte(data["node-template.yaml"].(string)))
	must(t, err)
	network, err := values.ParseNetwork([]byte(data["cluster-network.yaml"].(string)))
	must(t, err)
	access, err := client.New(cluster.ServiceAccount(t, release, "strait-controller"))
	must(t, err)
	options := controller.Options{
		Client: access, Namespace: release, Identity: "strait-controller-0", Network: network, Helpers: helpers,
		Gateways: workload.Gateways{Namespace: "strait-gateways", ServiceAccount: "strait-gateway", Template: pods},
		Log:      slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	for _, change := range changes {
		change(&options)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- controller.Run(ctx, options) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// checkMonitored checks that the PodMonitor selects a gateway's pod, and the pods of the
// chart except those of its hooks.
func checkMonitored(t *testing.T, gateway *corev1.PodTemplateSpec) {
	t.Helper()
	all := render(t, "--set", "metrics.podMonitor.enabled=true")
	text, err := find(t, all, "PodMonitor", "strait").MarshalJSON()
	must(t, err)
	var monitor struct {
		Spec struct {
			Selector            metav1.LabelSelector `json:"selector"`
			PodMetricsEndpoints []struct{ Port string }
		} `json:"spec"`
	}
	must(t, json.Unmarshal(text, &monitor))
	selector, err := metav1.LabelSelectorAsSelector(&monitor.Spec.Selector)
	must(t, err)
	found := pods(t, all)
	found["gateway"] = gateway
	for name, pod := range found {
		serves := slices.ContainsFunc(pod.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == monitor.Spec.PodMetricsEndpoints[0].Port })
		if selected := selector.Matches(labels.Set(pod.Labels)); selected != serves {
			t.Errorf("%s: the PodMonitor selects it: %v; it serves metrics: %v", name, selected, serves)
		}
	}
}
