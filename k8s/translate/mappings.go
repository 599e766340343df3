package translate

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
)

func mapping(name string) string { return "AddressMapping " + name }

// mappings returns the mappings of external addresses, in the order of the names of their
// AddressMappings. A mapping whose address is not reserved is skipped; its own status has
// the reason.
func (t *translation) mappings() (all []config.Mapping) {
	t.mapped = make(map[config.Mapping]string)
	for _, m := range slices.SortedFunc(slices.Values(t.Mappings), func(a, b *v1alpha1.AddressMapping) int { return cmp.Compare(a.Name, b.Name) }) {
		if !reserved(m) {
			continue
		}
		external := t.addresses(mapping(m.Name), "spec.external", []v1alpha1.IP{m.Spec.External})
		target := t.addresses(mapping(m.Name), "spec.target", []v1alpha1.IP{m.Spec.Target})
		if len(external) == 0 || len(target) == 0 {
			continue
		}
		if len(all) == v1alpha1.MaxMappings {
			t.problem(mapping(m.Name), "", fmt.Sprintf("exceeds the limit: a gateway serves %d mappings", v1alpha1.MaxMappings), "delete mappings that are not needed")
			continue
		}
		one := config.Mapping{External: external[0], Target: target[0]}
		t.mapped[one] = m.Name
		all = append(all, one)
	}
	return all
}

// reserved reports whether the current external address of a mapping is reserved for it.
func reserved(m *v1alpha1.AddressMapping) bool {
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReserved)
	return m.DeletionTimestamp == nil && c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == m.Generation
}

// Served returns those of the mappings that are in a gateway's configuration, in the order
// of their names.
func Served(mappings []*v1alpha1.AddressMapping, by []config.Mapping) (all []v1alpha1.ServedMapping) {
	serves := make(map[config.Mapping]bool, len(by))
	for _, m := range by {
		serves[m] = true
	}
	for _, m := range mappings {
		external, err := netip.ParseAddr(string(m.Spec.External))
		target, err2 := netip.ParseAddr(string(m.Spec.Target))
		if err == nil && err2 == nil && serves[config.Mapping{External: external, Target: target}] {
			all = append(all, v1alpha1.ServedMapping{Name: m.Name, Generation: m.Generation})
		}
	}
	slices.SortFunc(all, func(a, b v1alpha1.ServedMapping) int { return cmp.Compare(a.Name, b.Name) })
	return all[:min(len(all), v1alpha1.MaxMappings)]
}
