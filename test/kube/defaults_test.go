//go:build apiserver

package kube

import (
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"strait.dev/strait/k8s/api/v1alpha1"
)

func TestOmittedFieldsGetDefaults(t *testing.T) {
	for resource, row := range map[string]struct{ spec, want string }{
		"clusternetworks": {`{}`, `
internalCIDRs: [10.80.0.0/16, "fd73:7472:80::/64"]
externalCIDRs: [10.70.0.0/16]
remapPools: [10.64.0.0/10, "fd73:7472::/32"]
overlay: {mtu: 0, encapsulation: auto}
`},
		"peerings": {`{clusterID: b}`, `
clusterID: b
gateway: {replicas: 2, keyGeneration: 1, service: {type: ClusterIP, port: 51840}}
localNodes: Deny
services: {importFrom: Existing, maxServices: 2000, maxEndpoints: 50000, maxBytes: 8388608}
`},
	} {
		t.Run(resource, func(t *testing.T) {
			created, err := create(t, ours(t)(resource), sample(t, resource, edit{"spec", parse(t, row.spec)}))
			must(t, err)
			if want := parse(t, row.want); !reflect.DeepEqual(created.Object["spec"], any(want)) {
				t.Errorf("the spec is\n%v\nwant\n%v", created.Object["spec"], want)
			}
		})
	}
}

func TestT15_AnEmptyListIsNoneAndGetsNoDefault(t *testing.T) {
	none := sample(t, "clusternetworks", edit{"spec.externalCIDRs", []any{}}, edit{"spec.remapPools", []any{}})
	created, err := create(t, ours(t)("clusternetworks"), none)
	must(t, err)
	for _, field := range []string{"externalCIDRs", "remapPools"} {
		if list, found, _ := unstructured.NestedSlice(created.Object, "spec", field); !found || len(list) != 0 {
			t.Errorf("%s is %v, want an empty list", field, list)
		}
	}
}

// The API server stores exactly what the Go types hold: no field of the samples is unknown
// to either.
func TestGoTypesHoldTheWholeObject(t *testing.T) {
	for resource, object := range map[string]runtime.Object{
		"clusternetworks": &v1alpha1.ClusterNetwork{}, "peerings": &v1alpha1.Peering{},
		"nodeattachments": &v1alpha1.NodeAttachment{}, "addressclaims": &v1alpha1.AddressClaim{},
		"addressmappings": &v1alpha1.AddressMapping{},
	} {
		t.Run(resource, func(t *testing.T) {
			kept := withStatus(t, resource)
			must(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(kept.Object, object, true))
			back, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
			must(t, err)
			if !reflect.DeepEqual(back, kept.Object) {
				t.Errorf("through the Go type it is\n%v\nwant\n%v", back, kept.Object)
			}
		})
	}
}

func TestAZeroGoObjectGetsTheDefaults(t *testing.T) {
	network := &v1alpha1.ClusterNetwork{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.ClusterNetworkName}}
	network.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ClusterNetwork"))
	written, err := runtime.DefaultUnstructuredConverter.ToUnstructured(network)
	must(t, err)
	created, err := create(t, ours(t)("clusternetworks"), &unstructured.Unstructured{Object: written})
	must(t, err)
	must(t, runtime.DefaultUnstructuredConverter.FromUnstructured(created.Object, network))
	if got := network.Spec; len(got.ExternalCIDRs) != 1 || len(got.RemapPools) != 2 || got.Overlay.Encapsulation != v1alpha1.EncapsulationAuto {
		t.Errorf("the spec is %+v, want the defaults", got)
	}
}

func TestTheClusterIDMayBeGivenLater(t *testing.T) {
	client := ours(t)("clusternetworks")
	created, err := create(t, client, sample(t, "clusternetworks", edit{"spec.clusterID", nil}))
	must(t, err)
	given := sample(t, "clusternetworks")
	given.SetResourceVersion(created.GetResourceVersion())
	if _, err := client.Update(t.Context(), given, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
}
