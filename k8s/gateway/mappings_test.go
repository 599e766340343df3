package gateway

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/test/kube"
)

// A gateway serves what is reserved, and says which generation of it.
func TestAGatewaySaysWhichMappingsItServes(t *testing.T) {
	t.Parallel()
	w := inMemory(t)
	w.network(t)
	w.peering(t)
	w.place(t)
	mappings := w.admin.AddressMappings()
	w.created(t, func(ctx context.Context) error {
		_, err := mappings.Create(ctx, read[v1alpha1.AddressMapping](t, `
metadata: {name: vm}
spec: {external: 10.70.1.9, target: 192.0.2.77}`), metav1.CreateOptions{})
		return err
	}, func(ctx context.Context) error { return mappings.Delete(ctx, "vm", metav1.DeleteOptions{}) })
	w.run(t)
	w.eventually(t, "ready", w.ready)
	if strings.Contains(w.inForce(), "10.70.1.9") {
		t.Error("a mapping without a reserved address is served")
	}
	reserve := func(generation int64) {
		t.Helper()
		_, err := mappings.ApplyStatus(t.Context(), &v1alpha1.AddressMapping{ObjectMeta: metav1.ObjectMeta{Name: "vm"}, Status: v1alpha1.AddressMappingStatus{
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReserved, Status: metav1.ConditionTrue, Reason: "Claimed", ObservedGeneration: generation, LastTransitionTime: metav1.Now()}},
		}}, "strait-controller")
		must(t, err)
	}
	says := func(want ...v1alpha1.ServedMapping) func() bool {
		return func() bool {
			r := w.report(t)
			return r != nil && slices.Equal(r.Mappings, want)
		}
	}
	reserve(1)
	w.eventually(t, "the mapping is served", says(v1alpha1.ServedMapping{Name: "vm", Generation: 1}))

	kube.Edit(t, mappings, "vm", func(m *v1alpha1.AddressMapping) { m.Spec.Target = "192.0.2.78" })
	w.eventually(t, "a mapping without a status is not served", says())
	reserve(2)
	w.eventually(t, "the other target is served", says(v1alpha1.ServedMapping{Name: "vm", Generation: 2}))
	w.eventually(t, "the other target is in force", func() bool { return strings.Contains(w.inForce(), "192.0.2.78") })
	must(t, mappings.Delete(t.Context(), "vm", metav1.DeleteOptions{}))
	w.eventually(t, "nothing is served", says())
}
