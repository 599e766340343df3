package controller_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

// manyPorts creates a Service with many ports, as media servers have, and its EndpointSlice.
func (f *fixture) manyPorts(name string, ports int) {
	f.Helper()
	spec := web()
	spec.Ports = nil
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name + "-x", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.5"}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}},
	}
	for i := range ports {
		port := fmt.Sprintf("rtp-%d", i)
		spec.Ports = append(spec.Ports, corev1.ServicePort{Name: port, Protocol: corev1.ProtocolUDP, Port: int32(20000 + i)})
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &port, Protocol: new(corev1.ProtocolUDP), Port: new(int32(20000 + i))})
	}
	f.serve(name, spec)
	_, err := f.EndpointSlices("shop").Apply(f.Context(), slice, "test")
	must(f.T, err)
}

// What one cluster exports, another imports.
func TestServicesThatKubernetesAcceptsAreExportedAndImported(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.joined()
		f.serve("1web", web())
		f.endpoints("1web", "10.0.0.5")
		f.manyPorts("rtp", 150)
		f.serve("8443", corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"a": "b"}})
		for _, name := range []string{"1web", "rtp", "8443"} {
			f.export(name, mcsv1beta1.ServiceExportSpec{})
			f.untilExport(name, mcsv1beta1.ServiceExportConditionReady, "True Exported")
			is, err := f.ExportedServices(gateways).Get(t.Context(), name+".shop", metav1.GetOptions{})
			must(t, err)
			f.unexport(name)
			must(t, f.Services("shop").Delete(t.Context(), name, metav1.DeleteOptions{}))
			r := is.Spec
			r.ExportedAt = metav1.Unix(1_000_000_000, 0)
			f.receive("b", r)
		}
		f.untilImported("1web", "ClusterSetIP web 80/TCP from b: b 10.71.0.5")
		f.untilSummary("b", "3 imported, 0 refused: ")
		found, _ := f.importedObjects("rtp")
		if len(found) != 1 || len(found[0].Ports) != 150 {
			t.Errorf("the import of rtp has %d EndpointSlices", len(found))
		}
	})
}

func TestAServiceWithTooManyPortsIsNotExported(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		f.lead()
		f.joined()
		f.manyPorts("rtp", 1025)
		f.export("rtp", mcsv1beta1.ServiceExportSpec{})
		f.untilExport("rtp", mcsv1beta1.ServiceExportConditionReady, "False Failed the Service has 1025 ports, and at most 1024 are exported")
		if _, err := f.ExportedServices(gateways).Get(t.Context(), "rtp.shop", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the ExportedService: %v", err)
		}
		f.manyPorts("rtp", 1024)
		f.untilExport("rtp", mcsv1beta1.ServiceExportConditionReady, "True Exported")
	})
}
