package dns

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/services"
	"strait.dev/strait/operate/findings"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/test/fakekube"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var inKubeSystem = Options{Namespace: metav1.NamespaceSystem}

// deployment is a CoreDNS as kubeadm installs it, of an image.
func deployment(image string) *appsv1.Deployment {
	labels := map[string]string{"k8s-app": "kube-dns"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "coredns", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				ServiceAccountName: "coredns",
				Containers: []corev1.Container{{
					Name: "coredns", Image: image, Args: []string{"-conf", "/etc/coredns/Corefile"},
					VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/coredns"}},
				}},
				Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "coredns"}, Items: []corev1.KeyToPath{{Key: "Corefile", Path: "Corefile"}},
				}}}},
			}},
		},
	}
}

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}, Data: data}
}

// withCustom adds to a Deployment the volume of a ConfigMap with server blocks for users.
func withCustom(d *appsv1.Deployment) *appsv1.Deployment {
	pod := &d.Spec.Template.Spec
	pod.Containers[0].VolumeMounts = append(pod.Containers[0].VolumeMounts, corev1.VolumeMount{Name: "custom", MountPath: "/etc/coredns/custom"})
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "custom", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "coredns-custom"}, Optional: new(true),
	}}})
	return d
}

// k3s is a Corefile that imports server blocks.
const k3s = ".:53 {\n    kubernetes cluster.local {\n      pods insecure\n    }\n    reload\n    import /etc/coredns/custom/*.override\n}\nimport /etc/coredns/custom/*.server\n"

// clusterWith is an API server with objects and with ServiceImports in v1alpha1. It permits
// CoreDNS to read these while the ClusterRoleBinding exists.
func clusterWith(t *testing.T, objects ...runtime.Object) (*fakekube.Server, operator.Cluster) {
	t.Helper()
	server := fakekube.New(objects...)
	server.Handle("/apis/multicluster.x-k8s.io/v1alpha1", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"kind":"APIResourceList","apiVersion":"v1"}`)
	}))
	c := server.Client(t)
	server.Handle("/apis/authorization.k8s.io/v1/subjectaccessreviews", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		b, err := c.ClusterRoleBindings().Get(t.Context(), roleName, metav1.GetOptions{})
		allowed := err == nil && b.Subjects[0].Name == "coredns" && b.RoleRef.Name == roleName
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(authorizationv1.SubjectAccessReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
			Status:   authorizationv1.SubjectAccessReviewStatus{Allowed: allowed},
		})
	}))
	return server, operator.Cluster{Name: "context a", Client: c}
}

// objectsOf returns the objects of a plan.
func objectsOf(p *Plan) (all []string) {
	for _, c := range p.Changes {
		all = append(all, c.Object)
	}
	return all
}

func data(t *testing.T, c *client.Client, name string) map[string]string {
	t.Helper()
	m, err := c.ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), name, metav1.GetOptions{})
	must(t, err)
	return m.Data
}

// codes returns the findings in short.
func codes(all []findings.Finding) (short []string) {
	for _, f := range all {
		short = append(short, fmt.Sprintf("%s %s", f.Severity, f.Code))
	}
	return short
}

func TestAClusterIsConfiguredCheckedAndReverted(t *testing.T) {
	t.Parallel()
	_, c := clusterWith(t, deployment("registry.k8s.io/coredns/coredns:v1.12.2"), configMap("coredns", map[string]string{"Corefile": kubeadm, "other": "kept"}))
	if is := codes(Check(t.Context(), c, inKubeSystem)); !slices.Equal(is, []string{"ok STRAIT-D001", "info STRAIT-D002"}) {
		t.Errorf("before: %v", is)
	}
	plan, err := PlanConfigure(t.Context(), c.Client, inKubeSystem)
	must(t, err)
	if is := objectsOf(plan); !slices.Equal(is, []string{"ClusterRole and ClusterRoleBinding strait-coredns", "ConfigMap kube-system/coredns"}) || plan.Restart {
		t.Errorf("planned: %v, restart %v", is, plan.Restart)
	}
	const want = `--- ConfigMap kube-system/coredns Corefile
+++ ConfigMap kube-system/coredns Corefile
@@ -4 +4 @@
        lameduck 5s
     }
     ready
-    kubernetes cluster.local in-addr.arpa ip6.arpa {
+    kubernetes cluster.local in-addr.arpa ip6.arpa clusterset.local {
+       multicluster clusterset.local
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
@@ -14 +15 @@
        max_concurrent 1000
     }
     cache 30 {
-       disable success cluster.local
-       disable denial cluster.local
+       disable success cluster.local clusterset.local
+       disable denial cluster.local clusterset.local
     }
     loop
     reload
`
	if is := plan.Changes[1].Diff; is != want {
		t.Errorf("the difference is\n%s\nwant:\n%s", is, want)
	}
	must(t, plan.Apply(t.Context(), c.Client.DryRun()))
	if is := data(t, c.Client, "coredns")["Corefile"]; is != kubeadm {
		t.Errorf("a dry run changes the Corefile:\n%s", is)
	}
	must(t, plan.Apply(t.Context(), c.Client))
	if is := data(t, c.Client, "coredns"); is["Corefile"] != kubeadmConfigured || is["other"] != "kept" {
		t.Errorf("configured: %v", is)
	}
	if is := codes(Check(t.Context(), c, inKubeSystem)); !slices.Equal(is, []string{"ok STRAIT-D001", "ok STRAIT-D002"}) {
		t.Errorf("after: %v", is)
	}
	plan, err = PlanConfigure(t.Context(), c.Client, inKubeSystem)
	must(t, err)
	if plan.Changes == nil || len(plan.Changes) > 0 { // null is no list for a script
		t.Errorf("a second time: %v", objectsOf(plan))
	}

	plan, err = PlanRemove(t.Context(), c.Client, inKubeSystem)
	must(t, err)
	if is := objectsOf(plan); !slices.Equal(is, []string{"ConfigMap kube-system/coredns", "ClusterRole and ClusterRoleBinding strait-coredns"}) {
		t.Errorf("to remove: %v", is)
	}
	must(t, plan.Apply(t.Context(), c.Client))
	if is := data(t, c.Client, "coredns")["Corefile"]; is != kubeadm {
		t.Errorf("removed:\n%s", is)
	}
	plan, err = PlanRemove(t.Context(), c.Client, inKubeSystem)
	must(t, err)
	if plan.Changes == nil || len(plan.Changes) > 0 {
		t.Errorf("to remove a second time: %v", objectsOf(plan))
	}
}

func TestAServerBlockIsAddedWhereTheDistributionProvidesForIt(t *testing.T) {
	t.Parallel()
	for _, existing := range []*corev1.ConfigMap{nil, configMap("coredns-custom", map[string]string{"mine.server": "example.org {\n  errors\n}\n"})} {
		objects := []runtime.Object{withCustom(deployment("rancher/mirrored-coredns-coredns:1.13.1")), configMap("coredns", map[string]string{"Corefile": k3s})}
		if existing != nil {
			objects = append(objects, existing)
		}
		_, c := clusterWith(t, objects...)
		plan, err := PlanConfigure(t.Context(), c.Client, inKubeSystem)
		must(t, err)
		must(t, plan.Apply(t.Context(), c.Client))
		if is := data(t, c.Client, "coredns-custom")["strait.server"]; is != serverBlockText("53") {
			t.Errorf("configured:\n%s", is)
		}
		if is := data(t, c.Client, "coredns")["Corefile"]; is != k3s {
			t.Errorf("the Corefile of the distribution is changed:\n%s", is)
		}
		if is := codes(Check(t.Context(), c, inKubeSystem)); !slices.Equal(is, []string{"ok STRAIT-D001", "ok STRAIT-D002"}) {
			t.Errorf("checked: %v", is)
		}
		plan, err = PlanConfigure(t.Context(), c.Client, inKubeSystem)
		must(t, err)
		if len(plan.Changes) > 0 {
			t.Errorf("a second time: %v", objectsOf(plan))
		}
		plan, err = PlanRemove(t.Context(), c.Client, inKubeSystem)
		must(t, err)
		must(t, plan.Apply(t.Context(), c.Client))
		list, err := c.Client.ConfigMaps(metav1.NamespaceSystem).List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=coredns-custom"})
		must(t, err)
		if left := len(list.Items); existing == nil && left != 0 || existing != nil && (left != 1 || len(list.Items[0].Data) != 1) {
			t.Errorf("removed: %+v", list.Items)
		}
	}
}

func TestAClusterThatCannotBeConfiguredIsRefusedWithTheRemedy(t *testing.T) {
	t.Parallel()
	corefile := configMap("coredns", map[string]string{"Corefile": kubeadm})
	kubeDNS := deployment("registry.k8s.io/dns/k8s-dns-kube-dns:1.26.4")
	kubeDNS.Name, kubeDNS.Spec.Template.Spec.Containers[0].Args = "kube-dns", nil
	second := deployment("registry.k8s.io/coredns/coredns:v1.12.2")
	second.Name = "coredns-2"
	baked := deployment("registry.k8s.io/coredns/coredns:v1.12.2")
	baked.Spec.Template.Spec.Volumes = nil
	for _, c := range []struct {
		name    string
		objects []runtime.Object
		want    string
	}{
		{"none", nil, "no Deployment in kube-system has the label k8s-app=kube-dns; set --coredns-namespace and --coredns-deployment"},
		{"OpenShift", []runtime.Object{&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-dns", Name: "dns-default"}}}, "spec.servers of dns.operator/default"},
		{"kube-dns", []runtime.Object{kubeDNS}, "Deployment kube-system/kube-dns, is not CoreDNS, and cannot serve clusterset.local; run a CoreDNS for this zone"},
		{"two", []runtime.Object{deployment("coredns:1.12.2"), second}, "2 Deployments in kube-system have the label k8s-app=kube-dns; choose CoreDNS with --coredns-deployment"},
		{"old", []runtime.Object{deployment("602401143452.dkr.ecr.eu-west-1.amazonaws.com/eks/coredns:v1.11.4-eksbuild.2"), corefile}, "CoreDNS is 1.11.4; upgrade it to 1.12.2 or later"},
		{"unknown", []runtime.Object{deployment("coredns/coredns@sha256:0123"), corefile}, "give it with --coredns-version"},
		{"not a ConfigMap", []runtime.Object{baked}, "/etc/coredns/Corefile of Deployment kube-system/coredns is not from a ConfigMap"},
		{"no Corefile", []runtime.Object{deployment("coredns:1.12.2"), configMap("coredns", nil)}, "ConfigMap kube-system/coredns has no key Corefile"},
		{"another product", []runtime.Object{deployment("coredns:1.12.2"), configMap("coredns", map[string]string{"Corefile": kubeadm + "clusterset.local {\n  forward . 10.96.0.9\n}\n"})}, "ConfigMap kube-system/coredns: Corefile: line 24: the server block of clusterset.local"},
		{"another product in a file of its own", []runtime.Object{withCustom(deployment("coredns:1.12.2")), configMap("coredns", map[string]string{"Corefile": k3s}),
			configMap("coredns-custom", map[string]string{"lighthouse.server": "clusterset.local:53 {\n  forward . 10.96.0.9\n}\n"})}, "ConfigMap kube-system/coredns-custom: lighthouse.server: line 1: the server block of clusterset.local:53"},
	} {
		_, cluster := clusterWith(t, c.objects...)
		_, err := PlanConfigure(t.Context(), cluster.Client, inKubeSystem)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestCoreDNSIsNotConfiguredBeforeThereAreServiceImports(t *testing.T) {
	t.Parallel()
	server := fakekube.New(deployment("coredns:1.12.2"), configMap("coredns", map[string]string{"Corefile": kubeadm}))
	_, err := PlanConfigure(t.Context(), server.Client(t), inKubeSystem)
	if err == nil || !strings.Contains(err.Error(), "the cluster has no ServiceImports, and CoreDNS waits for them when it starts; install Strait first") {
		t.Errorf("%v", err)
	}
}

func TestTheVersionOfCoreDNSIsFound(t *testing.T) {
	t.Parallel()
	for image, want := range map[string]string{
		"registry.k8s.io/coredns/coredns:v1.13.1":                      "1.13.1",
		"registry:5000/eks/coredns:v1.11.4-eksbuild.2":                 "1.11.4",
		"rancher/hardened-coredns:v1.12.1-build20250401@sha256:012345": "1.12.1",
		"coredns":                     "1.14.2", // from its metrics
		"example.org:5000/coredns":    "1.14.2",
		"example.org/coredns:current": "1.14.2",
	} {
		d := deployment(image)
		server, c := clusterWith(t, d, configMap("coredns", map[string]string{"Corefile": kubeadm}),
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "coredns-1", Labels: d.Spec.Template.Labels}, Spec: d.Spec.Template.Spec})
		server.Handle("/api/v1/namespaces/kube-system/pods/http:coredns-1:9153/proxy/metrics", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "# HELP coredns_build_info x\ncoredns_build_info{goversion=\"go1.26\",revision=\"1\",version=\"1.14.2\"} 1\n")
		}))
		is, err := Find(t.Context(), c.Client, inKubeSystem)
		must(t, err)
		if is.Version == nil || is.Version.String() != want {
			t.Errorf("%s: %v, want %s", image, is.Version, want)
		}
	}
	_, c := clusterWith(t, deployment("coredns"), configMap("coredns", map[string]string{"Corefile": kubeadm}))
	is, err := Find(t.Context(), c.Client, Options{Namespace: metav1.NamespaceSystem, Deployment: "coredns", Version: "1.15"})
	must(t, err)
	if is.Supported() != nil {
		t.Errorf("a given version: %v", is.Version)
	}
}

func TestACorefileThatChangedInTheMeantimeIsNotOverwritten(t *testing.T) {
	t.Parallel()
	_, c := clusterWith(t, deployment("coredns:1.12.2"), configMap("coredns", map[string]string{"Corefile": strings.ReplaceAll(kubeadm, "    reload\n", "")}))
	plan, err := PlanConfigure(t.Context(), c.Client, inKubeSystem)
	must(t, err)
	if !plan.Restart {
		t.Error("without the plugin reload, no restart is demanded")
	}
	m, err := c.Client.ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), "coredns", metav1.GetOptions{})
	must(t, err)
	m.Data["Corefile"] += "# changed\n"
	_, err = c.Client.ConfigMaps(metav1.NamespaceSystem).Update(t.Context(), m, metav1.UpdateOptions{})
	must(t, err)
	if err := plan.Apply(t.Context(), c.Client); err == nil || !strings.Contains(err.Error(), "run the command again") {
		t.Errorf("%v", err)
	}
}

func TestWhatANameResolvesToIsJudged(t *testing.T) {
	want := map[string][]string{"a.x.svc.clusterset.local": {"10.96.0.7"}}
	ok := Answer{Name: services.VersionName}
	for _, c := range []struct {
		name    string
		answers []Answer
		want    []string
	}{
		{"good", []Answer{ok, {Name: "a.x.svc.clusterset.local", Addresses: []string{"10.96.0.7"}}}, []string{"ok STRAIT-D003", "ok STRAIT-D003"}},
		{"not served", []Answer{{Name: services.VersionName, NotFound: true, Error: "no such host"}, {Name: "a.x.svc.clusterset.local", NotFound: true, Error: "no such host"}}, []string{"error STRAIT-D003"}},
		{"no such name", []Answer{ok, {Name: "b.x.svc.clusterset.local", NotFound: true, Error: "no such host"}}, []string{"ok STRAIT-D003", "error STRAIT-D003"}},
		{"no answer", []Answer{ok, {Name: "a.x.svc.clusterset.local", Error: "i/o timeout"}}, []string{"ok STRAIT-D003", "error STRAIT-D003"}},
		{"another address", []Answer{ok, {Name: "a.x.svc.clusterset.local", Addresses: []string{"10.96.0.8"}}}, []string{"ok STRAIT-D003", "error STRAIT-D003"}},
		{"a name that was given", []Answer{ok, {Name: "h.x.svc.clusterset.local", Addresses: []string{"10.0.0.8", "10.0.0.9"}}}, []string{"ok STRAIT-D003", "ok STRAIT-D003"}},
	} {
		if is := codes(answerFindings("context a", c.answers, want)); !slices.Equal(is, c.want) {
			t.Errorf("%s: %v, want %v", c.name, is, c.want)
		}
	}
}
