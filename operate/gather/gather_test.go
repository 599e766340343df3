package gather

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/test/fakekube"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// options are those of all tests.
func options() Options {
	return Options{Namespaces: []string{"strait-system", "strait-gateways", "strait-nodes"}, Since: time.Hour, MaxSize: 64 << 20,
		Strait: map[string]string{"version": "v1"}, Now: noon, Root: "strait-gather-test"}
}

// unpack is an archive, by file.
func unpack(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	must(t, err)
	all := map[string]string{}
	r := tar.NewReader(plain)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		text, err := io.ReadAll(r)
		must(t, err)
		name, ok := strings.CutPrefix(h.Name, "strait-gather-test/")
		if !ok || h.Mode != 0o600 {
			t.Errorf("file %s of mode %o", h.Name, h.Mode)
		}
		all[name] = string(text)
	}
}

// planted is what no archive may hold.
var planted = map[string]string{"private": key(11), "preshared": key(12), "of an invite": key(13), "jwt": jwt, "invite": invite, "pem": pemKey, "password": "correct-horse-battery"}

func everySecret() string {
	var b strings.Builder
	for name, secret := range planted {
		fmt.Fprintf(&b, "%s %s ", name, secret)
	}
	return b.String() + "password=correct-horse-battery "
}

// install makes a cluster with Strait in it, and secrets in all places.
func installed(t *testing.T, cluster *fakekube.Server) *client.Client {
	t.Helper()
	c := cluster.Client(t)
	for _, ns := range options().Namespaces {
		cluster.ServiceAccount(t, ns, "default")
	}
	annotated := map[string]string{"kubectl.kubernetes.io/last-applied-configuration": `{"stringData":"` + everySecret() + `"}`, "note": base64.StdEncoding.EncodeToString([]byte(everySecret()))}
	network := &v1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName, Annotations: annotated}}
	_, err := c.ClusterNetworks().Apply(t.Context(), network, "test")
	must(t, err)
	network.Status = v1alpha1.ClusterNetworkStatus{ClusterID: "a", PodCIDRs: []v1alpha1.CIDR{"10.0.0.0/16"}}
	_, err = c.ClusterNetworks().ApplyStatus(t.Context(), network, "test")
	must(t, err)
	p := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b", Annotations: annotated}, Spec: v1alpha1.PeeringSpec{
		ClusterID: "b", Peers: []v1alpha1.Peer{{Name: "a-0", PublicKey: v1alpha1.PublicKey(key(1)), PresharedKeySecretName: "b-psk"}}}}
	applied, err := c.Peerings().Apply(t.Context(), p, "test")
	must(t, err)
	p.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Failed", Message: everySecret(),
		ObservedGeneration: applied.Generation, LastTransitionTime: metav1.NewTime(noon)}}
	_, err = c.Peerings().ApplyStatus(t.Context(), p, "test")
	must(t, err)
	data := map[string][]byte{}
	for name, secret := range planted {
		data[strings.ReplaceAll(name, " ", "-")] = []byte(secret + "\n")
	}
	_, err = c.Secrets("strait-gateways").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "b-0-key-1", Annotations: annotated}, Data: data}, metav1.CreateOptions{})
	must(t, err)
	_, err = c.ConfigMaps("strait-system").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "strait-controller"},
		Data: map[string]string{"gateway-template.yaml": everySecret()}}, metav1.CreateOptions{})
	must(t, err)
	cluster.Add(
		&mcsv1beta1.ServiceExport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart", Annotations: annotated}, Spec: mcsv1beta1.ServiceExportSpec{ExportedAnnotations: annotated}},
		&mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}, Spec: mcsv1beta1.ServiceImportSpec{Type: mcsv1beta1.ClusterSetIP, IPs: []string{"10.96.4.4"}}},
		&v1alpha1.ExportedService{ObjectMeta: metav1.ObjectMeta{Namespace: "strait-gateways", Name: "cart.shop"}, Spec: v1alpha1.ServiceRecord{Namespace: "shop", Name: "cart", Annotations: annotated}},
		&v1alpha1.ReceivedService{ObjectMeta: metav1.ObjectMeta{Namespace: "strait-gateways", Name: "cart.shop.b"},
			Spec: v1alpha1.ReceivedServiceSpec{Peering: "b", Service: v1alpha1.ServiceRecord{Namespace: "shop", Name: "cart", Annotations: annotated}}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "derived", Annotations: annotated, Labels: map[string]string{mcsv1beta1.LabelServiceName: "cart"}}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "of-a-user"}},
		&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart-b", Labels: map[string]string{mcsv1beta1.LabelServiceName: "cart"}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.71.2.9"}}}},
	)
	env := []corev1.EnvVar{{Name: "HTTPS_PROXY", Value: "http://me:correct-horse-battery@proxy"}, {Name: "KEY", Value: everySecret()}, {Name: "STRAIT_PEERING", Value: "b"}}
	spec := func(name string) corev1.PodSpec {
		return corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{
			{Name: name, Image: "strait.dev/strait:v1", Env: env, Args: []string{"gateway", "--key-dir=/etc/strait/keys"}},
			{Name: "sidecar", Image: "mesh", Args: []string{"--token", "correct-horse-battery"}, Command: []string{"sh", "-c", everySecret()}},
		}}
	}
	_, err = c.Deployments("strait-system").Create(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "strait-controller", Annotations: annotated},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}, Annotations: annotated}, Spec: spec("controller")}}}, metav1.CreateOptions{})
	must(t, err)
	for ns, component := range map[string]string{"strait-system": "controller", "strait-gateways": "gateway", "strait-nodes": "node"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: component + "-0", Annotations: annotated,
			Labels: map[string]string{"app.kubernetes.io/name": "strait", "app.kubernetes.io/component": component}}, Spec: spec(component)}
		pod, err = c.Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})
		must(t, err)
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, HostIP: "192.0.2.21", PodIP: "10.0.1.9", ContainerStatuses: []corev1.ContainerStatus{{
			Name: component, RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Message: everySecret()}},
		}}}
		_, err = c.Pods(ns).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
		must(t, err)
		_, err = c.Events(ns).Create(t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "event", Namespace: ns}, Message: "it said " + everySecret(),
			Reason: "Said", InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: component + "-0"}}, metav1.CreateOptions{})
		must(t, err)
	}
	return c
}

// answers plays the kubelets: every log and every program prints secrets.
func answers(s *site) {
	s.exec = func(_ context.Context, o client.ExecOptions) error {
		fmt.Fprintf(o.Stdout, "%s says %s public %s\n", strings.Join(o.Command, " "), everySecret(), key(1))
		return nil
	}
	s.logs = func(_ context.Context, _, pod, container string, o corev1.PodLogOptions) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(fmt.Sprintf("%s %s previous %v since %d: %s\n{\"private\":%q}\n", pod, container, o.Previous, *o.SinceSeconds, everySecret(), inHex(key(11))))), nil
	}
}

func TestT4_AnArchiveHoldsWhatThereIsToKnowAndNoSecret(t *testing.T) {
	t.Parallel()
	cluster := fakekube.New()
	c := installed(t, cluster)
	var packed bytes.Buffer
	summary, err := run(t.Context(), &packed, []operator.Cluster{{Name: "context a", Client: c}}, options(), answers)
	must(t, err)
	files := unpack(t, packed.Bytes())

	for name, text := range files {
		for what, secret := range planted {
			for form, is := range map[string]string{"": secret, "base64 of ": base64.StdEncoding.EncodeToString([]byte(secret))[:40*len(secret)/44], "hex of ": inHex(secret)} {
				if is != "" && strings.Contains(text, is) {
					t.Errorf("%s holds the %skey %s", name, form, what)
				}
			}
		}
	}
	for name, holds := range map[string][]string{
		"summary.json":                                                {`"schema": "strait.dev/gather/1"`},
		"index.html":                                                  {"context a, cluster a", "Peering b: ", `href="1-a/strait-gateways/logs/gateway-0.gateway.log"`},
		"1-a/status.json":                                             {`"clusterID": "a"`},
		"1-a/status.txt":                                              {"Peering b: not ready"},
		"1-a/objects/peerings.yaml":                                   {key(1), "presharedKeySecretName: b-psk", "last-applied-configuration: (left out)"},
		"1-a/objects/clusternetworks.yaml":                            {"10.0.0.0/16"},
		"1-a/kubernetes/version.json":                                 {"gitVersion"},
		"1-a/kubernetes/crds.json":                                    {"peerings.strait.dev"},
		"1-a/kubernetes/nodes.yaml":                                   {"items"},
		"1-a/strait-gateways/secrets.yaml":                            {"b-0-key-1", "- private"},
		"1-a/strait-system/configmaps.yaml":                           {"- gateway-template.yaml"},
		"1-a/strait-system/deployments.yaml":                          {"strait.dev/strait:v1", "name: KEY", "value: (left out)", "value: b"},
		"1-a/strait-gateways/pods.yaml":                               {"--key-dir=/etc/strait/keys", "exitCode: 1"},
		"1-a/strait-nodes/events.yaml":                                {"reason: Said", "it said "},
		"1-a/strait-gateways/logs/gateway-0.gateway.log":              {"gateway-0 gateway previous false since 3600"},
		"1-a/strait-gateways/logs/gateway-0.gateway.previous.log":     {"previous true"},
		"1-a/strait-gateways/metrics/gateway-0.txt":                   {"/strait agent fetch http://127.0.0.1:8080/metrics says", "public " + key(1)},
		"1-a/strait-nodes/metrics/node-0.txt":                         {"http://192.0.2.21:6093/metrics"},
		"1-a/nodes/node-1.json":                                       {"/strait node state says"},
		"1-a/strait-system/logs/controller-0.controller.log":          {"controller-0 controller"},
		"1-a/strait-system/leases.yaml":                               {"items"},
		"1-a/strait-gateways/networkpolicies.yaml":                    {"items"},
		"1-a/default/events.yaml":                                     {"items"},
		"1-a/strait-gateways/statefulsets.yaml":                       {"items"},
		"1-a/strait-nodes/daemonsets.yaml":                            {"items"},
		"1-a/strait-nodes/poddisruptionbudgets.yaml":                  {"items"},
		"1-a/strait-system/services.yaml":                             {"items"},
		"1-a/objects/nodeattachments.yaml":                            {"items"},
		"1-a/objects/addressclaims.yaml":                              {"items"},
		"1-a/objects/addressmappings.yaml":                            {"items"},
		"1-a/kubernetes/servicecidrs.yaml":                            {"items"},
		"1-a/services/serviceexports.yaml":                            {"name: cart", "last-applied-configuration: (left out)"},
		"1-a/services/serviceimports.yaml":                            {"10.96.4.4"},
		"1-a/services/exportedservices.yaml":                          {"cart.shop", "note: (left out)"},
		"1-a/services/receivedservices.yaml":                          {"cart.shop.b", "note: (left out)"},
		"1-a/services/services.yaml":                                  {"name: derived"},
		"1-a/services/endpointslices.yaml":                            {"10.71.2.9"},
		"1-a/strait-system/logs/controller-0.controller.previous.log": {"previous true"},
	} {
		for _, want := range holds {
			if !strings.Contains(files[name], want) {
				t.Errorf("%s lacks %q:\n%.2000s", name, want, files[name])
			}
		}
	}
	if strings.Contains(files["1-a/strait-gateways/pods.yaml"], "sidecar") && strings.Contains(files["1-a/strait-gateways/pods.yaml"], "--token") {
		t.Error("arguments of a foreign container are shown")
	}
	if !complete(summary) || summary.Clusters[0].Redacted == 0 {
		t.Errorf("summary %+v", summary)
	}
	var again Summary
	if err := json.Unmarshal([]byte(files["summary.json"]), &again); err != nil || again.Clusters[0].Status == nil {
		t.Errorf("summary.json: %v, %+v", err, again)
	}
	for _, bad := range []string{"<script", "http://", "https://"} {
		if strings.Contains(files["index.html"], bad) {
			t.Errorf("the index has %s in it", bad)
		}
	}

	if strings.Contains(files["1-a/services/services.yaml"], "of-a-user") {
		t.Error("a Service that is not imported is shown")
	}

	t.Run("with few permissions", func(t *testing.T) {
		forbidden, err := client.New(cluster.ServiceAccount(t, "default", "nobody"))
		must(t, err)
		var packed bytes.Buffer
		summary, err := Run(t.Context(), &packed, []operator.Cluster{{Name: "context forbidden", Client: forbidden}}, options())
		must(t, err)
		if complete(summary) {
			t.Error("nothing is missing")
		}
		files := unpack(t, packed.Bytes())
		for _, want := range []string{"strait-gateways/secrets.yaml", "objects/peerings.yaml", "strait-system/pods.yaml", "forbidden"} {
			if !strings.Contains(files["index.html"], want) {
				t.Errorf("the index does not say that %s is missing", want)
			}
		}
		if files["1-forbidden/kubernetes/version.json"] == "" {
			t.Error("what may be read is not there")
		}
	})
	t.Run("where pods cannot be asked", func(t *testing.T) {
		var packed bytes.Buffer
		refused := apierrors.NewForbidden(corev1.Resource("pods"), "gateway-0", errors.New("no exec, said "+everySecret()))
		summary, err := run(t.Context(), &packed, []operator.Cluster{{Name: "context a", Client: c}}, options(), func(s *site) {
			s.exec = func(context.Context, client.ExecOptions) error { return refused }
			s.logs = func(context.Context, string, string, string, corev1.PodLogOptions) (io.ReadCloser, error) {
				return nil, refused
			}
		})
		must(t, err)
		files := unpack(t, packed.Bytes())
		if complete(summary) || !strings.Contains(files["index.html"], "strait-gateways/logs/gateway-0.gateway.log") || files["1-a/objects/peerings.yaml"] == "" {
			t.Errorf("summary %+v", summary)
		}
		if strings.Contains(files["index.html"], key(11)) || strings.Contains(files["summary.json"], key(11)) {
			t.Error("an error holds a key")
		}
	})
	t.Run("without the Multi-Cluster Services API", func(t *testing.T) {
		without := fakekube.New()
		c := installed(t, without)
		without.DeleteCRDs(mcsv1beta1.GroupName)
		summary, err := run(t.Context(), io.Discard, []operator.Cluster{{Name: "context a", Client: c}}, options(), answers)
		must(t, err)
		if notes := summary.Clusters[0].Notes; !complete(summary) || len(notes) != 1 || !strings.Contains(notes[0], "is not installed") {
			t.Errorf("missing %+v, notes %q", summary.Clusters[0].Missing, notes)
		}
	})
	t.Run("of a bounded size", func(t *testing.T) {
		const most = 14 << 10
		o := options()
		o.MaxSize = most
		var packed bytes.Buffer
		summary, err := run(t.Context(), &packed, []operator.Cluster{{Name: "context a", Client: c}}, o, func(s *site) {
			answers(s)
			s.logs = func(context.Context, string, string, string, corev1.PodLogOptions) (io.ReadCloser, error) {
				noise := make([]byte, 256<<10)
				for i := range noise {
					noise[i] = byte(' ' + (i*i*7919>>3)%90)
				}
				return io.NopCloser(bytes.NewReader(noise)), nil
			}
		})
		must(t, err)
		files := unpack(t, packed.Bytes())
		index, summaryFile := len(files["index.html"]), len(files["summary.json"])
		if packed.Len() > most+index+summaryFile || complete(summary) || !strings.Contains(files["index.html"], "larger than --max-size") {
			t.Errorf("%d bytes, %+v", packed.Len(), summary.Clusters[0].Missing)
		}
	})
	t.Run("with a cluster that is away", func(t *testing.T) {
		away, err := client.New(&rest.Config{Host: "http://127.0.0.1:1"})
		must(t, err)
		var packed bytes.Buffer
		summary, err := run(t.Context(), &packed, []operator.Cluster{{Name: "context <b>", Client: away}, {Name: "context a", Client: c}}, options(), answers)
		must(t, err)
		files := unpack(t, packed.Bytes())
		if len(summary.Clusters) != 2 || len(summary.Clusters[0].Missing) != 1 || len(summary.Clusters[1].Missing) != 0 {
			t.Errorf("summary %+v", summary)
		}
		if !strings.Contains(files["index.html"], "context &lt;b&gt;: the API server cannot be reached") || files["2-a/status.json"] == "" {
			t.Errorf("index\n%s", files["index.html"])
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := run(ctx, io.Discard, []operator.Cluster{{Name: "context a", Client: c}}, options(), answers); !errors.Is(err, context.Canceled) {
			t.Errorf("ends with %v", err)
		}
	})
}

func TestALogIsCutAtItsBeginning(t *testing.T) {
	line := strings.Repeat("x", 99) + "\n"
	text, before, err := tail(strings.NewReader(strings.Repeat(line, 5000)+"last\n"), 1000)
	must(t, err)
	if len(text) > 1000 || len(text) < 900 || !strings.HasSuffix(string(text), line+"last\n") || !strings.HasPrefix(string(text), line) || before+int64(len(text)) != 500005 {
		t.Errorf("%d bytes after %d: %.50q", len(text), before, text)
	}
	text, before, err = tail(strings.NewReader("all\n"), 1000)
	if string(text) != "all\n" || before != 0 || err != nil {
		t.Errorf("%q after %d, %v", text, before, err)
	}
}

func TestOfVeryManyNodesThoseThatAreNotWellAreLookedInto(t *testing.T) {
	s := &site{gatewayNodes: map[string]bool{"node-199": true}}
	var pods []*corev1.Pod
	var nodes []*v1alpha1.NodeAttachment
	for i := range 200 {
		name := fmt.Sprintf("node-%d", i)
		status := metav1.ConditionTrue
		if i == 150 {
			status = metav1.ConditionFalse
		}
		pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{install.ComponentLabel: "node"}},
			Spec: corev1.PodSpec{NodeName: name}, Status: corev1.PodStatus{Phase: corev1.PodRunning}})
		nodes = append(nodes, &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name},
			Status: v1alpha1.NodeAttachmentStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status}}}})
	}
	chosen := s.selectPods(pods, nodes)
	if len(chosen) != nodesAtMost+2 || chosen[0].Name != "node-150" || chosen[1].Name != "node-199" {
		t.Errorf("%d chosen, first %s and %s", len(chosen), chosen[0].Name, chosen[1].Name)
	}
	if len(s.is.Notes) != 1 || !strings.HasPrefix(s.is.Notes[0], "148 more ready nodes") {
		t.Errorf("notes %q", s.is.Notes)
	}
}

// complete reports whether no data is missing.
func complete(s *Summary) bool {
	return !slices.ContainsFunc(s.Clusters, func(c Cluster) bool { return len(c.Missing) > 0 })
}
