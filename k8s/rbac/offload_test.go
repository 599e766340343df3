//go:build apiserver

package rbac_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

func TestAPeeringOverWhichPodsAreOffloadedIsNotDeleted(t *testing.T) {
	c := newAttacked(t)
	fingerprint := v1alpha1.Fingerprint(strings.Repeat("0a", 32))
	for name, spec := range map[string]v1alpha1.PeeringSpec{
		"lender":   {LocalPods: true, Borrow: &v1alpha1.PeeringBorrow{NodeName: "strait-lender", Fingerprint: fingerprint}},
		"borrower": {LocalPods: true, Lend: &v1alpha1.PeeringLend{Namespaces: []string{"work"}}},
	} {
		p, err := c.admin.Peerings().Create(t.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}, metav1.CreateOptions{})
		must(t, err)
		remove := func() error {
			return c.admin.Peerings().Delete(t.Context(), name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
		}
		enforced(t, remove)
		if err := remove(); !strings.Contains(err.Error(), peering.Offloads(p).Error()) {
			t.Errorf("the API server says %q, the commands say %q", err, peering.Offloads(p))
		}
		p.Spec.Borrow, p.Spec.Lend = nil, nil // as strait unborrow and strait unlend leave it
		_, err = c.admin.Peerings().Update(t.Context(), p, metav1.UpdateOptions{})
		must(t, err)
		must(t, remove())
	}
}
