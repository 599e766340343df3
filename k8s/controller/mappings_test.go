package controller_test

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/test/kube"
)

// mapTo applies a mapping of an external address.
func (f *fixture) mapTo(name string, external v1alpha1.IP) {
	f.Helper()
	_, err := f.AddressMappings().Apply(f.Context(), &v1alpha1.AddressMapping{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.AddressMappingSpec{External: external, Target: "192.0.2.77"}}, "admin")
	must(f.T, err)
}

func (f *fixture) untilMapping(name, want string) {
	f.Helper()
	f.until("AddressMapping "+name, func() string {
		is, err := f.AddressMappings().Get(f.Context(), name, metav1.GetOptions{})
		must(f.T, err)
		c := meta.FindStatusCondition(is.Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || c.ObservedGeneration != is.Generation || is.Status.ObservedGeneration != is.Generation {
			return "skipped yet"
		}
		if got := fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message); !strings.HasPrefix(got, want) {
			return fmt.Sprintf("%s, want %s", got, want)
		}
		return ""
	})
}

func TestAMappingHasItsAddressAloneOrSaysWhyNot(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.mapTo("database", "10.70.0.1") // before any node takes it
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.lead()
		f.untilMapping("database", "False NoGateway 10.70.0.1 is reserved, but there is no gateway to serve it; create a Peering")
		f.untilAttached("node-1 1 [10.80.0.1] [10.70.0.2]")
		f.untilClaims("10.70.0.1-32", "10.70.0.2-32", "10.80.0.1-32")

		f.mapTo("other", "10.70.0.1")
		f.untilMapping("other", "False Taken 10.70.0.1 is in use as the external address of AddressMapping database; choose another address")
		f.mapTo("other", "10.70.0.2")
		f.untilMapping("other", "False Taken 10.70.0.2 is in use as the external address of NodeAttachment node-1; choose another address")
		f.mapTo("other", "10.9.0.1")
		f.untilMapping("other", "False Outside 10.9.0.1 is not in spec.externalCIDRs of ClusterNetwork default; choose an address in these, or add a CIDR that contains it")
		f.untilMapping("database", "False NoGateway")

		f.mapTo("database", "10.70.0.9") // the old one is free then
		f.untilMapping("database", "False NoGateway 10.70.0.9 is reserved")
		f.mapTo("other", "10.70.0.1")
		f.untilMapping("other", "False NoGateway 10.70.0.1 is reserved")
		must(t, f.AddressMappings().Delete(t.Context(), "other", metav1.DeleteOptions{}))
		f.untilClaims("10.70.0.9-32", "10.70.0.2-32", "10.80.0.1-32")
		f.deleteNode("node-1") // now nothing may be allocated, and what is held stays
		f.untilAttached()
		f.untilClaims("10.70.0.9-32")
	})
}

func TestAMappingIsReadyWhenAllGatewaysServeItAsItIs(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.lead()
		f.mapTo("vm", "10.70.1.9")
		f.untilMapping("vm", "False NoGateway")
		f.peer("b", 2, "10.1.0.0/16")
		f.untilMapping("vm", "False NotServed 10.70.1.9 is reserved, but gateway b-0 and 1 more do not serve it; if this persists, check its log for AddressMapping vm")
		serves := func(gateway string, generation int64) {
			t.Helper()
			f.say(gateway, v1alpha1.GatewayReportStatus{Mappings: []v1alpha1.ServedMapping{{Name: "another", Generation: 1}, {Name: "vm", Generation: generation}}})
		}
		serves("b-0", 1)
		f.untilMapping("vm", "False NotServed 10.70.1.9 is reserved, but gateway b-1 does not serve it")
		serves("b-1", 1)
		f.untilMapping("vm", "True Served all gateways map 10.70.1.9 to 192.0.2.77")

		m, err := f.AddressMappings().Get(t.Context(), "vm", metav1.GetOptions{})
		must(t, err)
		if c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReserved); c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != 1 {
			t.Errorf("the condition Reserved is %+v", c)
		}
		kube.Edit(t, f.AddressMappings(), "vm", func(m *v1alpha1.AddressMapping) { m.Spec.Target = "192.0.2.78" })
		f.untilMapping("vm", "False NotServed") // what is served is the old target
		serves("b-0", 2)
		serves("b-1", 2)
		f.untilMapping("vm", "True Served all gateways map 10.70.1.9 to 192.0.2.78")
	})
}
