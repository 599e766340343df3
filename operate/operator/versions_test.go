package operator

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/test/fakekube"
)

func TestVersionsAreThoseOfTheWorkloads(t *testing.T) {
	t.Parallel()
	about := func(component, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "strait-" + component, Name: name, Labels: map[string]string{
			install.NameLabel: install.Name, install.ComponentLabel: component, "app.kubernetes.io/version": "0.2.0"}}
	}
	runs := func(container, image string) corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "sidecar", Image: "envoy:1"}, {Name: container, Image: image}}}}
	}
	digest := "sha256:" + strings.Repeat("0", 64)
	other := about(install.Controller, "other")
	other.Labels[install.NameLabel] = "other"
	cluster := fakekube.New(
		&appsv1.Deployment{ObjectMeta: about(install.Lender, "strait-lender-b"), Spec: appsv1.DeploymentSpec{Template: runs(install.Lender, "strait:dev@"+digest)}},
		&appsv1.Deployment{ObjectMeta: about(install.Borrower, "strait-borrower-b"), Spec: appsv1.DeploymentSpec{Template: runs(install.Borrower, "registry:5000/strait")}},
		&appsv1.Deployment{ObjectMeta: about(install.Controller, "strait-controller"), Spec: appsv1.DeploymentSpec{Replicas: new(int32(2)), Template: runs(install.Controller, "strait.dev/strait@"+digest)},
			Status: appsv1.DeploymentStatus{UpdatedReplicas: 1, ReadyReplicas: 2}},
		&appsv1.DaemonSet{ObjectMeta: about(install.Node, "strait-node"), Spec: appsv1.DaemonSetSpec{Template: runs(install.Node, "registry:5000/strait:0.1.0")},
			Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 40, UpdatedNumberScheduled: 12, NumberReady: 39}},
		&appsv1.StatefulSet{ObjectMeta: about(install.Gateway, "c"), Spec: appsv1.StatefulSetSpec{Replicas: new(int32(0)), Template: runs(install.Gateway, "strait:0.1.0")}},
		&appsv1.StatefulSet{ObjectMeta: about(install.Gateway, "b"), Spec: appsv1.StatefulSetSpec{Template: runs(install.Gateway, "strait:0.1.0")}},
		&appsv1.Deployment{ObjectMeta: other, Spec: appsv1.DeploymentSpec{Template: runs(install.Controller, "other:1")}},
		&appsv1.Deployment{ObjectMeta: about("monitoring", "without"), Spec: appsv1.DeploymentSpec{Template: runs("monitoring", "prometheus:3")}},
	)
	v, err := ReadVersions(t.Context(), Cluster{Name: "context a", Client: cluster.Client(t)})
	must(t, err)
	var table strings.Builder
	must(t, VersionsTable(&table, []*Versions{v, {Cluster: "context b"}}))
	golden(t, "testdata/versions.golden.txt", table.String())
}

func TestVersionsOfAClusterThatRefusesSayWhatIsForbidden(t *testing.T) {
	t.Parallel()
	cluster := fakekube.New()
	restricted, err := client.New(cluster.ServiceAccount(t, "default", "restricted"))
	must(t, err)
	_, err = ReadVersions(t.Context(), Cluster{Name: "context a", Client: restricted})
	says(t, err, "context a: read Deployments: ", "forbidden", "use a context with the necessary permissions")
}
