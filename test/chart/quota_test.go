//go:build apiserver

package chart

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/test/kube"
	"strait.dev/strait/test/program"
)

// limitNamespace creates a ResourceQuota for requests and limits, and waits until it is
// enforced: the namespace refuses pods that do not state each of them.
func limitNamespace(t *testing.T, cluster *kube.Cluster, namespace string) {
	t.Helper()
	hard := corev1.ResourceList{
		corev1.ResourceRequestsCPU: resource.MustParse("8"), corev1.ResourceRequestsMemory: resource.MustParse("8Gi"),
		corev1.ResourceLimitsCPU: resource.MustParse("8"), corev1.ResourceLimitsMemory: resource.MustParse("8Gi"),
	}
	_, err := cluster.Kubernetes().CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "team"}, Spec: corev1.ResourceQuotaSpec{Hard: hard},
	}, metav1.CreateOptions{})
	must(t, err)
	cluster.ServiceAccount(t, namespace, "default")
	kube.Until(t, "the quota of "+namespace+" is enforced", func() string {
		_, err := cluster.Kubernetes().CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "pod"},
			Spec: corev1.PodSpec{
				SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
				Containers: []corev1.Container{{Name: "c", Image: "i", SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				}}},
			},
		}, dryRun)
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "must specify") {
			return "a pod without resources: " + errText(err)
		}
		return ""
	})
}

func errText(err error) string {
	if err == nil {
		return "admitted"
	}
	return err.Error()
}

// Kubernetes' own quota and Job controllers admit and run all pods of an installation whose
// values limit each component, also those of helm test and helm uninstall.
func TestPodsAreAdmittedUnderAResourceQuota(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t)
	addNode(t, cluster, 1, "node-1", nil)
	startKubelets(t, cluster)
	must(t, cluster.Namespace(t.Context(), release))
	limitNamespace(t, cluster, release)
	access := []string{"KUBECONFIG=" + program.Kubeconfig(t, t.TempDir(), "admin", cluster.Admin())}
	do := func(args ...string) {
		t.Helper()
		if out, err := helm(t, access, append(args, "--namespace", release, "--timeout", "5m")...); err != nil {
			t.Fatalf("helm %s: %v\n%s", args[0], err, out)
		}
	}
	values := []string{"--set", "controller.resources.limits.cpu=500m,gateway.resources.limits.cpu=1,gateway.resources.limits.memory=256Mi," +
		"gateway.resources.requests.cpu=100m,gateway.resources.requests.memory=64Mi"}
	do(append([]string{"install", "strait", folder, "--wait"}, values...)...)

	limitNamespace(t, cluster, "strait-gateways")
	run(t, cluster, find(t, render(t, values...), "ConfigMap", "strait-controller"))
	admin, err := client.New(cluster.Admin())
	must(t, err)
	_, err = admin.Peerings().Create(t.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{
		ClusterID: "b", Gateway: v1alpha1.GatewaySpec{Replicas: 2},
	}}, metav1.CreateOptions{})
	must(t, err)
	kube.Until(t, "the gateways run", func() string { return strings.Join(missing(t, cluster, "strait-gateways", "gateway", "gateway"), " ") })

	do("test", "strait")
	do("uninstall", "strait")
	// No garbage collector runs here, so the pods of ended Jobs stay.
	if lacking := missing(t, cluster, release, "verify", "uninstall"); len(lacking) > 0 {
		t.Errorf("no pod of %q", lacking)
	}
}

// missing returns those of some components that have fewer pods than they are named, of those
// that kubelets run or ran.
func missing(t *testing.T, cluster *kube.Cluster, namespace string, components ...string) []string {
	t.Helper()
	pods, err := cluster.Kubernetes().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	left := components
	for _, p := range pods.Items {
		for i, of := range left {
			if p.Labels["app.kubernetes.io/component"] == of && p.Status.Phase != corev1.PodPending {
				left = append(left[:i:i], left[i+1:]...)
				break
			}
		}
	}
	return left
}
