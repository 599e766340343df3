package gather

import (
	"bytes"
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/test/fakekube"
)

func TestWhatIsOffloadedIsShownWithoutItsContents(t *testing.T) {
	t.Parallel()
	cluster := fakekube.New()
	c := installed(t, cluster)
	mine := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"strait.dev/peering": "b"}, Annotations: map[string]string{"note": everySecret()}}
	}
	agent := func(name, component string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "strait-offload", Name: name, Labels: map[string]string{"app.kubernetes.io/name": "strait", "app.kubernetes.io/component": component}}
	}
	users := corev1.PodSpec{NodeName: "strait-b", Containers: []corev1.Container{{Name: "c", Image: "of-a-user", Args: []string{everySecret()}, Env: []corev1.EnvVar{{Name: "KEY", Value: everySecret()}}}}}
	refused := corev1.PodStatus{Phase: corev1.PodPending, Reason: "NamespaceNotLent",
		ContainerStatuses: []corev1.ContainerStatus{{Name: "c", LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: "of-a-user"}}}}}
	cluster.Add(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "strait-offload"}},
		&v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{ClusterID: "b", Lend: &v1alpha1.PeeringLend{Namespaces: []string{"lent"}}, Borrow: &v1alpha1.PeeringBorrow{}}},
		&appsv1.Deployment{ObjectMeta: agent("strait-lender-b", "lender"), Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "lender", Args: []string{"lender"}}}}}}},
		&corev1.Pod{ObjectMeta: agent("strait-lender-b-1", "lender"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "lender"}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "lender"}}}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "strait-offload", Name: "strait-lender-b"}, Data: map[string][]byte{"tls.key": []byte(pemKey)}},
		&corev1.PodTemplate{ObjectMeta: mine("lent", "web"), Template: corev1.PodTemplateSpec{Spec: users}},
		&corev1.PodTemplate{ObjectMeta: mine("other", "foreign"), Template: corev1.PodTemplateSpec{Spec: users}},
		&corev1.Pod{ObjectMeta: mine("lent", "web"), Spec: users, Status: refused},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "lent", Name: "unrelated"}},
		&corev1.ConfigMap{ObjectMeta: mine("lent", "settings"), Data: map[string]string{"of-a-user": everySecret()}},
		&corev1.Secret{ObjectMeta: mine("lent", "passwords"), Data: map[string][]byte{"of-a-user": []byte(everySecret())}},
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}, Spec: users, Status: refused},
	)
	var packed bytes.Buffer
	summary, err := run(t.Context(), &packed, []operator.Cluster{{Name: "context a", Client: c}}, options(), answers)
	must(t, err)
	files := unpack(t, packed.Bytes())
	if !complete(summary) {
		t.Errorf("missing %+v", summary.Clusters[0].Missing)
	}
	for name, holds := range map[string][]string{
		"1-a/strait-offload/deployments.yaml":                  {"strait-lender-b", "- lender"},
		"1-a/strait-offload/secrets.yaml":                      {"strait-lender-b", "- tls.key"},
		"1-a/strait-offload/logs/strait-lender-b-1.lender.log": {"strait-lender-b-1 lender"},
		"1-a/strait-offload/metrics/strait-lender-b-1.txt":     {"/strait agent fetch http://127.0.0.1:8080/metrics says"},
		"1-a/offload/podtemplates.yaml":                        {"name: web"},
		"1-a/offload/configmaps.yaml":                          {"name: settings"},
		"1-a/offload/secrets.yaml":                             {"name: passwords"},
		"1-a/offload/services.yaml":                            {"items"},
		"1-a/offload/endpointslices.yaml":                      {"items"},
		"1-a/offload/twins.yaml":                               {"name: web", "reason: NamespaceNotLent"},
		"1-a/offload/pods-of-strait-b.yaml":                    {"name: cart", "nodeName: strait-b"},
	} {
		for _, want := range holds {
			if !strings.Contains(files[name], want) {
				t.Errorf("%s lacks %q:\n%.2000s", name, want, files[name])
			}
		}
	}
	for name, text := range files {
		for what, secret := range planted {
			if strings.Contains(text, secret) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(secret))[:40*len(secret)/44]) {
				t.Errorf("%s holds the %s key", name, what)
			}
		}
		if strings.HasPrefix(name, "1-a/offload/") {
			for _, foreign := range []string{"of-a-user", "unrelated", "foreign"} {
				if strings.Contains(text, foreign) {
					t.Errorf("%s holds %q:\n%s", name, foreign, text)
				}
			}
		}
	}
	if !slices.Contains(summary.Clusters[0].Files, "offload/twins.yaml") {
		t.Errorf("the summary has %q", summary.Clusters[0].Files)
	}
}
