//go:build apiserver

package controller_test

import (
	"fmt"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/rbac"
	"strait.dev/strait/test/kube"
)

func TestAControllerNeedsNoMoreThanItsRules(t *testing.T) {
	cluster := kube.Start(t)
	f := newFixture(t, cluster)
	account := f.cluster.Account(t, "strait-system", "strait-controller", rbac.Controller)
	f.start(account, "strait-system", "first")
	f.node("node-1", "192.0.2.21", "10.0.0.0/24")
	f.peer("b", 1, "10.0.0.0/16")
	f.untilAttached("node-1 1 [10.80.0.1] [10.70.0.1]")
	f.untilSeen("b", "10.0.0.0/16>10.64.0.0/16 Remapped")
	f.cluster.Account(t, "work", "default", nil)
	f.runPod("outside", "node-1", "10.9.0.1")
	f.untilPods("node-1 [10.9.0.1/32]")
	network, err := f.ClusterNetworks().Get(t.Context(), "default", metav1.GetOptions{})
	must(t, err)
	f.untilEvents("ClusterNetwork", network, "Normal Configured Ready is True: ")
	f.mapTo("database", "10.70.0.9")
	f.untilMapping("database", "False NotServed")
	must(t, f.AddressMappings().Delete(t.Context(), "database", metav1.DeleteOptions{}))
	f.untilWorkloads("set/b x1 service/b-0 policy/b secret/b-0-key-1 1.key")
	f.asks("b", v1alpha1.GatewaySpec{Replicas: 2, KeyGeneration: 2})
	f.untilWorkloads("set/b x2 service/b-0 service/b-1 policy/b budget/b secret/b-0-key-1 1.key secret/b-0-key-2 2.key secret/b-1-key-2 2.key")
	f.say("b-0", v1alpha1.GatewayReportStatus{PublicKey: publicKey, KeyGeneration: 2})
	f.asks("b", v1alpha1.GatewaySpec{Replicas: 1, KeyGeneration: 2})
	f.untilWorkloads("set/b x1 service/b-0 policy/b secret/b-0-key-1 1.key secret/b-0-key-2 2.key secret/b-1-key-2 2.key")
	f.untilGateOpens("b-0")
	f.deleteNode("node-1")
	f.untilAttached()
	f.until("the pod of the deleted node is deleted", func() string {
		if _, err := f.Pods(gateways).Get(t.Context(), "b-0", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Sprint(err)
		}
		return ""
	})
	must(t, f.Peerings().Delete(t.Context(), "b", metav1.DeleteOptions{}))
	f.untilClaims()

	for _, source := range refused(t, f, account) {
		t.Errorf("its rules lack %s", source)
	}
	for _, denied := range []authorizationv1.ResourceAttributes{
		{Resource: "secrets", Verb: "get"}, {Resource: "secrets", Verb: "list"}, {Resource: "secrets", Verb: "get", Namespace: "kube-system"},
		{Resource: "secrets", Verb: "get", Namespace: gateways}, {Resource: "secrets", Verb: "list", Namespace: gateways},
		{Resource: "secrets", Verb: "watch", Namespace: gateways}, {Resource: "secrets", Verb: "update", Namespace: gateways},
		{Resource: "secrets", Verb: "delete", Namespace: gateways}, {Resource: "secrets", Verb: "patch", Namespace: gateways}, {Resource: "secrets", Verb: "create", Namespace: "strait-system"},
		{Group: "multicluster.x-k8s.io", Resource: "serviceexports", Verb: "create", Namespace: "default"}, {Resource: "services", Verb: "patch", Namespace: "default"},
		{Resource: "namespaces", Verb: "delete"}, {Resource: "pods", Verb: "create", Namespace: gateways},
		{Resource: "pods", Verb: "patch", Namespace: gateways}, {Resource: "pods", Subresource: "status", Verb: "update", Namespace: gateways},
		{Resource: "pods", Subresource: "status", Verb: "patch", Namespace: "kube-system"},
		{Group: "apps", Resource: "statefulsets", Verb: "delete", Namespace: gateways}, {Group: "apps", Resource: "statefulsets", Verb: "patch", Namespace: "kube-system"},
		{Resource: "configmaps", Verb: "get", Namespace: "kube-system", Name: "other"}, {Resource: "pods", Verb: "delete"}, {Resource: "pods", Verb: "delete", Namespace: "strait-system"},
		{Resource: "pods", Verb: "create", Namespace: "strait-system"}, {Resource: "pods", Verb: "patch", Namespace: "kube-system"},
		{Resource: "nodes", Verb: "update"}, {Resource: "nodes", Verb: "patch"}, {Resource: "nodes", Subresource: "status", Verb: "patch"},
		{Group: "strait.dev", Resource: "peerings", Verb: "patch"}, {Group: "strait.dev", Resource: "peerings", Verb: "delete"},
		{Group: "coordination.k8s.io", Resource: "leases", Verb: "update", Namespace: "kube-system"},
	} {
		review, err := f.cluster.Kubernetes().AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User: "system:serviceaccount:strait-system:strait-controller", ResourceAttributes: &denied,
			},
		}, metav1.CreateOptions{})
		must(t, err)
		if review.Status.Allowed {
			t.Errorf("its rules allow %+v", denied)
		}
	}
}

// untilGateOpens creates the pod of a gateway that had no link before, and waits until the
// controller sets the condition of its readiness gate. Nothing else of its status changes.
func (f *fixture) untilGateOpens(name string) {
	f.Helper()
	pod := f.runGateway(name, corev1.ConditionFalse)
	f.until("the readiness gate of "+name, func() string {
		is, err := f.Pods(gateways).Get(f.Context(), name, metav1.GetOptions{})
		must(f.T, err)
		if c := condition(is, "strait.dev/LinksUp"); c == nil || c.Status != corev1.ConditionTrue || c.Reason != "NoLinkBefore" || c.LastTransitionTime.IsZero() {
			return fmt.Sprint(c)
		}
		if c := condition(is, corev1.PodReady); c == nil || c.Status != corev1.ConditionFalse || is.Status.Phase != pod.Status.Phase {
			f.Fatalf("the status became %+v", is.Status)
		}
		return ""
	})
}

// refused are the optional sources of detection that the account may not read: the
// controller does without, so that nothing else would show it.
func refused(t *testing.T, f *fixture, account *rest.Config) (sources []string) {
	t.Helper()
	c, err := client.New(account)
	must(t, err)
	ctx := t.Context()
	_, err = c.ServiceCIDRs().List(ctx, metav1.ListOptions{})
	sources = appendForbidden(sources, err)
	_, err = c.ConfigMaps("kube-system").Get(ctx, "kubeadm-config", metav1.GetOptions{})
	sources = appendForbidden(sources, err)
	_, err = c.Pods("kube-system").List(ctx, metav1.ListOptions{})
	sources = appendForbidden(sources, err)
	_, err = c.EndpointSlices("default").List(ctx, metav1.ListOptions{})
	return appendForbidden(sources, err)
}

func appendForbidden(sources []string, err error) []string {
	if apierrors.IsForbidden(err) {
		return append(sources, err.Error())
	}
	return sources
}
