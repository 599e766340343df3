package controller_test

import (
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/network"
)

// A preflight reports the same CIDRs that the controller detects.
func TestWhatIsDetectedWithoutAControllerIsWhatItFinds(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		before, err := network.Detected(t.Context(), f.Client)
		must(t, err)
		f.lead()
		f.until("the ClusterNetwork", func() string {
			is, err := f.ClusterNetworks().Get(t.Context(), "default", metav1.GetOptions{})
			if err != nil || !meta.IsStatusConditionTrue(is.Status.Conditions, v1alpha1.ConditionReady) {
				return "not ready"
			}
			if !reflect.DeepEqual(is.Spec.InternalCIDRs, before.Spec.InternalCIDRs) || !reflect.DeepEqual(is.Spec.ExternalCIDRs, before.Spec.ExternalCIDRs) || !reflect.DeepEqual(is.Spec.RemapPools, before.Spec.RemapPools) {
				t.Errorf("the pools are %+v, and were foretold as %+v", is.Spec, before.Spec)
			}
			is.Status.Conditions, before.Status.Conditions, is.Status.ObservedGeneration = nil, nil, 0
			if !reflect.DeepEqual(is.Status, before.Status) {
				t.Errorf("the status is %+v, and was foretold as %+v", is.Status, before.Status)
			}
			return ""
		})
	})
}
