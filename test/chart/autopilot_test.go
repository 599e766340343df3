//go:build apiserver

package chart

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/controller"
)

// An API server with policies that refuse what GKE Autopilot refuses admits every object of
// the chart without node helpers, what the controller creates for a Peering, and the pods of
// commands. It refuses the node helper.
func TestAutopilotAdmitsEverythingWithoutNodeHelpers(t *testing.T) {
	t.Parallel()
	on := admissionOf(t, "autopilot")
	all := render(t, "--set", "node.enabled=false")
	here := pods(t, all)
	deploys := func(pod *corev1.PodTemplateSpec) error {
		_, err := on.cluster.Kubernetes().AppsV1().Deployments(release).Create(t.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "d"},
			Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: *pod},
		}, dryRun)
		return err
	}
	for why, change := range map[string]func(*corev1.PodSpec){
		"host namespaces are not allowed": func(p *corev1.PodSpec) { p.HostNetwork = true },
		"a capability is not allowed": func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext.Capabilities.Add = []corev1.Capability{"NET_ADMIN"}
		},
		"host ports are not allowed": func(p *corev1.PodSpec) { p.Containers[0].Ports[0].HostPort = p.Containers[0].Ports[0].ContainerPort },
		"host paths are only allowed in /var/log": func(p *corev1.PodSpec) {
			p.Volumes = append(p.Volumes, corev1.Volume{Name: "tun", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/dev/net/tun"}}})
		},
		"a node selector has a label that is not allowed": func(p *corev1.PodSpec) { p.NodeSelector["example.com/edge"] = "true" },
		"a node affinity has a label that is not allowed": func(p *corev1.PodSpec) {
			p.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "example.com/edge", Operator: corev1.NodeSelectorOpExists}}}},
			}}}
		},
		"requests of CPU and memory are missing": func(p *corev1.PodSpec) { p.Containers[0].Resources.Requests = nil },
	} {
		pod := here["strait-controller"].DeepCopy()
		change(&pod.Spec)
		on.refuses(why, func() error { return deploys(pod) })
	}
	on.refuses("the namespace is managed", func() error {
		_, err := on.cluster.Kubernetes().CoreV1().ConfigMaps(metav1.NamespaceSystem).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, dryRun)
		return err
	})
	on.refuses("host namespaces are not allowed", func() error {
		pod := pods(t, render(t))["strait-node"]
		_, err := on.cluster.Kubernetes().AppsV1().DaemonSets(release).Create(t.Context(), &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: "strait-node"},
			Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: *pod},
		}, dryRun)
		return err
	})

	apply(t, on.cluster, all)
	on.admits(here)
	run(t, on.cluster, find(t, all, "ConfigMap", "strait-controller"), func(o *controller.Options) { o.Gateways.WithoutNodes = true })
	on.admitsGateways()
	on.admitsAgents()
}
