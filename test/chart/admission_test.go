//go:build apiserver

package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/internal/endpoint"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/operate/agents"
	"strait.dev/strait/test/kube"
)

// admission is an API server that refuses what the admission of an environment refuses.
type admission struct {
	*testing.T
	cluster *kube.Cluster
	admin   *client.Client
}

// admissionOf starts an API server with the policies of an environment, a directory in
// testdata, and with the namespace of the release.
func admissionOf(t *testing.T, environment string) *admission {
	t.Helper()
	cluster, folder := kube.Start(t), filepath.Join("testdata", environment)
	for _, account := range []string{"strait-uninstall", "strait-verify"} { // of hooks, which apply does not create
		cluster.ServiceAccount(t, release, account)
	}
	if crds := filepath.Join(folder, "crds"); isDir(crds) {
		cluster.InstallCRDs(t, os.DirFS(crds))
	}
	policies, err := os.ReadFile(filepath.Join(folder, "policies.yaml"))
	must(t, err)
	cluster.InstallPolicies(t, policies)
	admin, err := client.New(cluster.Admin())
	must(t, err)
	return &admission{T: t, cluster: cluster, admin: admin}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// refuses waits until a request is refused for a reason: the API server enforces new policies
// some time later.
func (a *admission) refuses(why string, try func() error) {
	a.Helper()
	kube.Until(a.T, "a request is refused: "+why, func() string {
		if err := try(); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), why) {
			return fmt.Sprint(err)
		}
		return ""
	})
}

// create creates a pod of a template, as a dry run.
func (a *admission) create(namespace string, pod *corev1.PodTemplateSpec) error {
	_, err := a.admin.Pods(namespace).Create(a.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Labels: pod.Labels}, Spec: *pod.Spec.DeepCopy(),
	}, dryRun)
	return err
}

var dryRun = metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}

// admits checks that the pods of the chart are admitted, in its namespaces.
func (a *admission) admits(all map[string]*corev1.PodTemplateSpec) {
	a.Helper()
	for of, pod := range all {
		namespace := release
		if of == "strait-node" {
			namespace = "strait-nodes"
		}
		if err := a.create(namespace, pod); err != nil {
			a.Errorf("%s: %v", of, err)
		}
	}
}

// admitsGateways checks that the pods of a Peering that is created are admitted. The
// controller must run.
func (a *admission) admitsGateways() {
	a.Helper()
	if err := a.create("strait-gateways", gatewayPod(a.T, a.admin)); err != nil {
		a.Errorf("gateway: %v", err)
	}
}

// gatewayPod creates a Peering and returns the template of its gateways' pods, which the
// controller writes.
func gatewayPod(t *testing.T, admin *client.Client) *corev1.PodTemplateSpec {
	t.Helper()
	_, err := admin.Peerings().Create(t.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{
		ClusterID: "b", Gateway: v1alpha1.GatewaySpec{Replicas: 1},
	}}, metav1.CreateOptions{})
	must(t, err)
	var pod *corev1.PodTemplateSpec
	kube.Until(t, "a StatefulSet for the Peering", func() string {
		set, err := admin.StatefulSets("strait-gateways").Get(t.Context(), "b", metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		pod = &set.Spec.Template
		return ""
	})
	return pod
}

// admitsAgents checks that the pods of `strait verify`, and those that `strait preflight` runs
// without looking at nodes, are admitted.
func (a *admission) admitsAgents() {
	a.Helper()
	serve := []string{"agent", "serve"}
	ports := []corev1.ContainerPort{{ContainerPort: endpoint.Port, Protocol: corev1.ProtocolTCP}, {ContainerPort: endpoint.Port, Protocol: corev1.ProtocolUDP}}
	for purpose, node := range map[string]string{"preflight": "", "verify": "n1"} {
		if err := a.start(purpose, agents.Agent{Name: "agent", Node: node, Args: serve, Ports: ports}); err != nil {
			a.Errorf("pod of strait %s: %v", purpose, err)
		}
	}
}

// start starts an agent in namespaces of its own, which stay. It acts as the kubelet that
// runs it, and as the controller manager that creates its service account.
func (a *admission) start(purpose string, agent agents.Agent) (err error) {
	a.Helper()
	namespace, ended := "strait-"+purpose+"-test", make(chan error, 1)
	go func() {
		_, err := agents.Start(a.Context(), agents.Options{Client: a.admin, Image: "strait.dev/strait:1", Purpose: purpose, Suffix: "test"}, agent)
		ended <- err
	}()
	kube.Until(a.T, "an agent runs or is refused", func() string {
		select {
		case err = <-ended:
			return ""
		default:
		}
		if _, err := a.admin.Namespaces().Get(a.Context(), namespace, metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		a.cluster.ServiceAccount(a.T, namespace, "default")
		pod, err := a.admin.Pods(namespace).Get(a.Context(), agent.Name, metav1.GetOptions{})
		if err == nil {
			pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = corev1.PodRunning, "10.0.0.9", []corev1.PodIP{{IP: "10.0.0.9"}}
			_, err = a.admin.Pods(namespace).UpdateStatus(a.Context(), pod, metav1.UpdateOptions{})
		}
		return fmt.Sprint(err)
	})
	return err
}
