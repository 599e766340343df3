//go:build apiserver

package controller_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/test/kube"
)

// Kubernetes' own controllers run the StatefulSet and the PodDisruptionBudget of an only
// gateway; kubelets, the scheduler and gateways are simulated.
func TestF2_F8_AnOnlyGatewayIsReplacedByKubernetes(t *testing.T) {
	cluster := kube.Start(t)
	cluster.StartControllerManager(t, "statefulset-controller", "disruption-controller")
	f := newFixture(t, cluster)
	f.cluster.Account(t, gateways, "strait-gateway", nil)
	f.real = true
	s, stop := onlyGateway(f)
	evict := func() string {
		err := f.cluster.Kubernetes().PolicyV1().Evictions(gateways).Evict(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "b-0", Namespace: gateways}})
		switch {
		case apierrors.IsTooManyRequests(err):
			return err.Error()
		case err != nil:
			t.Fatal(err)
		}
		return ""
	}

	f.until("the budget is observed", func() string {
		budget, err := f.PodDisruptionBudgets(gateways).Get(t.Context(), "b", metav1.GetOptions{})
		if err != nil || budget.Status.CurrentHealthy != 1 {
			return "not yet"
		}
		return ""
	})
	if evict() == "" {
		t.Fatal("the only gateway was evicted")
	}
	before := f.gatewayPod("b-0").UID
	f.cordon("node-1", true)
	f.until("the eviction is allowed", evict)
	f.placedOn("b-0", "node-2", before)
	f.untilAlone("v1")
	s.neverDown()
	f.cordon("node-1", false)

	f.runs(stop, "v2")
	f.untilUpdated("b")
	f.untilAlone("v2")
	s.neverDown()

	lost := f.gatewayPod("b-0")
	other := map[string]string{"node-1": "node-2", "node-2": "node-1"}[lost.Spec.NodeName]
	s.set(func() { s.lost[lost.Spec.NodeName] = true })
	f.nodeIs(lost.Spec.NodeName, corev1.ConditionUnknown)
	must(t, f.Pods(gateways).Delete(t.Context(), "b-0", metav1.DeleteOptions{})) // as for the taint of the node
	f.placedOn("b-0", other, lost.UID)
	f.untilRunning("b-0 v2 ready")
}
