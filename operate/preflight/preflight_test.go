package preflight

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/operate/findings"
	"strait.dev/strait/operate/operator"
	"strait.dev/strait/test/fakekube"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func clusterOf(t *testing.T, name string, config *rest.Config) operator.Cluster {
	t.Helper()
	c, err := client.New(config)
	must(t, err)
	return operator.Cluster{Name: name, Client: c}
}

// Findings from the API server alone, without anything of Strait installed.
func TestAPreflightWithoutPodsReadsAndSaysWhatItDidNotLookAt(t *testing.T) {
	t.Parallel()
	node := linux("n1")
	node.Spec.PodCIDR, node.Spec.PodCIDRs = "10.0.1.0/24", []string{"10.0.1.0/24"}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.21"}}
	coreDNS := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "coredns", Labels: map[string]string{"k8s-app": "kube-dns"}},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "coredns", Image: "coredns:1.15.0", VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/coredns"}}}},
			Volumes:    []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "coredns"}}}}},
		}}},
	}
	corefile := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "coredns"}, Data: map[string]string{"Corefile": ". {\n  kubernetes cluster.local\n}\n"}}
	cluster := fakekube.New(coreDNS, corefile, &node, &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}}})
	cluster.DeleteCRDs()
	admin := clusterOf(t, "a", cluster.Config())

	all, err := Run(t.Context(), Options{Local: admin, NoPods: true})
	must(t, err)
	if worst := findings.Worst(all); worst != findings.Info {
		t.Errorf("the worst is %s:\n%s", worst, text(all))
	}
	said := text(all)
	for _, f := range all {
		said += f.Code + " " + f.Message + "\n"
	}
	for _, want := range []string{"skipped STRAIT-C012 pods are disabled", "STRAIT-C004 pods [10.0.1.0/24] (from nodes), Services [10.96.0.0/16] (from ServiceCIDRs)", "STRAIT-C010 Strait is not installed", "STRAIT-D001 CoreDNS 1.15.0", "info STRAIT-D002 CoreDNS is not configured"} {
		if !strings.Contains(said, want) {
			t.Errorf("%slacks %q", said, want)
		}
	}

	b := admin
	b.Name = "b"
	all, err = Run(t.Context(), Options{Local: admin, Remote: &b, NoPods: true})
	must(t, err)
	if got := text(all); !strings.Contains(got, "error STRAIT-U004 both are the same cluster") {
		t.Errorf("of one cluster twice:\n%s", got)
	}
	noRights := clusterOf(t, "nobody", cluster.ServiceAccount(t, "default", "nobody"))
	all, err = Run(t.Context(), Options{Local: noRights})
	must(t, err)
	if got := text(all); !strings.Contains(got, "skipped STRAIT-C004") || !strings.Contains(got, "skipped STRAIT-C010") || !strings.Contains(got, "error STRAIT-C012") || strings.Contains(got, "warning") {
		t.Errorf("for an account without permissions:\n%s", got)
	}
	noPods := clusterOf(t, "no-pods", cluster.ServiceAccount(t, "default", "no-pods", []byte("kind: ClusterRole\nrules: [{apiGroups: [strait.dev], resources: [clusternetworks], verbs: [get]}]\n")))
	all, err = Run(t.Context(), Options{Local: noPods, NoPods: true})
	must(t, err)
	if got := text(all); !strings.Contains(got, "skipped STRAIT-C010 ClusterNetworks and pods cannot be read") {
		t.Errorf("for an account that may not list pods:\n%s", got)
	}
}

// The remedy for CIDRs that are not detected is the spec of the ClusterNetwork.
func TestCIDRsThatAreDeclaredAreNotMissing(t *testing.T) {
	t.Parallel()
	node := linux("n1")
	declared := &v1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName}, Spec: networkOf("10.20.0.0/16").Spec}
	declared.Spec.PodCIDRs, declared.Spec.ServiceCIDRs = []v1alpha1.CIDR{"10.20.0.0/16"}, []v1alpha1.CIDR{"172.20.0.0/16"}
	all, err := Run(t.Context(), Options{Local: clusterOf(t, "a", fakekube.New(&node, declared).Config()), NoPods: true})
	must(t, err)
	if i := slices.IndexFunc(all, func(f findings.Finding) bool { return f.Code == "STRAIT-C004" }); all[i].Severity != findings.OK || !strings.Contains(all[i].Message, "pods [10.20.0.0/16]") {
		t.Errorf("%+v", all[i])
	}
}

func TestAnAPIServerThatIsAwayIsOneFinding(t *testing.T) {
	c := clusterOf(t, "away", &rest.Config{Host: "https://127.0.0.1:1"})
	all, err := Run(t.Context(), Options{Local: c})
	must(t, err)
	if len(all) != 1 || all[0].Code != "STRAIT-C001" || all[0].Severity != findings.Error || all[0].Remedy == "" {
		t.Errorf("%+v", all)
	}
}
