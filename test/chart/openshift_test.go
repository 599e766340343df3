//go:build apiserver

package chart

import (
	"fmt"
	"os"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller"
	"strait.dev/strait/test/kube"
)

// onOpenShift are the arguments of helm template for a cluster that has OpenShift's SCCs.
var onOpenShift = []string{"--api-versions", "security.openshift.io/v1"}

// An API server with policies that refuse what OpenShift's SCCs refuse admits all pods of the
// chart as it renders there, and the gateways, without any value.
func TestSecurityContextConstraintsAdmitAllPods(t *testing.T) {
	t.Parallel()
	cluster := kube.Start(t)
	must(t, cluster.Namespace(t.Context(), release))
	cluster.InstallCRDs(t, os.DirFS("testdata/openshift/crds"))
	all := render(t, onOpenShift...)
	apply(t, cluster, all)
	policies, err := os.ReadFile("testdata/openshift/policies.yaml")
	must(t, err)
	cluster.InstallPolicies(t, policies)
	admin, err := client.New(cluster.Admin())
	must(t, err)
	for _, namespace := range []string{release, "strait-gateways"} {
		_, err := admin.Namespaces().Patch(t.Context(), namespace, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"openshift.io/sa.scc.uid-range":"1000660000/10000"}}}`), metav1.PatchOptions{})
		must(t, err)
	}
	for _, account := range []string{"strait-uninstall", "strait-verify"} { // of hooks
		cluster.ServiceAccount(t, release, account)
	}
	create := func(namespace string, pod *corev1.PodTemplateSpec) error {
		_, err := admin.Pods(namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "pod", Labels: pod.Labels}, Spec: *pod.Spec.DeepCopy(),
		}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	namespace := func(of string) string {
		if of == "strait-node" {
			return "strait-nodes"
		}
		return release
	}
	refused := func(why string, try func() error) {
		t.Helper()
		kube.Until(t, "a pod is refused: "+why, func() string {
			if err := try(); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), why) {
				return fmt.Sprint(err)
			}
			return ""
		})
	}

	elsewhere := pods(t, render(t))
	for _, of := range []string{"strait-controller", "strait-uninstall", "strait-verify"} {
		refused("runAsUser is outside of the range", func() error { return create(namespace(of), elsewhere[of]) })
	}
	refused("the SCC does not allow a type of volumes", func() error {
		return create("strait-nodes", pods(t, render(t, append(onOpenShift, "--set", "node.tun=true")...))["strait-node"])
	})
	here := pods(t, all)
	for of, pod := range here {
		if err := create(namespace(of), pod); err != nil {
			t.Errorf("%s: %v", of, err)
		}
	}
	more := here["strait-node"].DeepCopy()
	more.Spec.Containers[0].SecurityContext.Capabilities.Add = append(more.Spec.Containers[0].SecurityContext.Capabilities.Add, "SYS_ADMIN")
	refused("the SCC does not allow a capability", func() error { return create("strait-nodes", more) })

	withTun := render(t, append(onOpenShift, "--set", "node.tun=true")...)
	apply(t, cluster, withTun)
	kube.Until(t, "the SCC admits /dev/net/tun", func() string {
		if err := create("strait-nodes", pods(t, withTun)["strait-node"]); err != nil {
			return err.Error()
		}
		return ""
	})

	if args := here["strait-controller"].Spec.Containers[0].Args; !strings.Contains(strings.Join(args, " "), "--gateway-assigned-uid") {
		t.Errorf("the controller's arguments are %q", args)
	}
	run(t, cluster, find(t, all, "ConfigMap", "strait-controller"), func(g *controller.Gateways) { g.AssignedUID = true })
	_, err = admin.Peerings().Create(t.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{
		ClusterID: "b", Gateway: v1alpha1.GatewaySpec{Replicas: 1},
	}}, metav1.CreateOptions{})
	must(t, err)
	var set *appsv1.StatefulSet
	kube.Until(t, "a StatefulSet for the Peering", func() string {
		if set, err = admin.StatefulSets("strait-gateways").Get(t.Context(), "b", metav1.GetOptions{}); err != nil {
			return err.Error()
		}
		return ""
	})
	if err := create("strait-gateways", &set.Spec.Template); err != nil {
		t.Errorf("gateway: %v", err)
	}
}
