//go:build apiserver || nightly

package clusters

import (
	"fmt"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcscrds "sigs.k8s.io/mcs-api/config/crd"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"
)

const (
	shop        = "shop" // the namespace of the exported Service
	serviceName = "web"
)

// exportService creates a Service of cluster c with one endpoint, and exports it.
func (c *cluster) exportService(t *testing.T, name, endpoint string) {
	t.Helper()
	must(t, c.Namespace(t.Context(), shop))
	meta := metav1.ObjectMeta{Name: name, Namespace: shop}
	_, err := c.admin.Services(shop).Create(t.Context(), &corev1.Service{
		ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}, metav1.CreateOptions{})
	must(t, err)
	c.setEndpoint(t, name, endpoint)
	_, err = c.admin.ServiceExports(shop).Create(t.Context(), &mcsv1beta1.ServiceExport{ObjectMeta: meta}, metav1.CreateOptions{})
	must(t, err)
}

// setEndpoint makes an address the only endpoint of a Service.
func (c *cluster) setEndpoint(t *testing.T, name, address string) {
	t.Helper()
	_, err := c.admin.EndpointSlices(shop).Apply(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: name + "-1", Namespace: shop, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}, Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true)}}},
	}, "endpointslice-controller")
	must(t, err)
}

// imported returns an error unless the Service is imported from a cluster with this endpoint.
func (c *cluster) imported(t *testing.T, from, address string, ready bool) error {
	i, err := c.admin.ServiceImports(shop).Get(t.Context(), serviceName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if i.Spec.Type != mcsv1beta1.ClusterSetIP || len(i.Spec.IPs) != 1 || !slices.Contains(i.Status.Clusters, mcsv1beta1.ClusterStatus{Cluster: from}) {
		return fmt.Errorf("import %+v %+v", i.Spec, i.Status)
	}
	slices, err := c.admin.EndpointSlices(shop).List(t.Context(), metav1.ListOptions{
		LabelSelector: mcsv1beta1.LabelServiceName + "=" + serviceName + "," + mcsv1beta1.LabelSourceCluster + "=" + from,
	})
	if err != nil {
		return err
	}
	if len(slices.Items) != 1 || len(slices.Items[0].Endpoints) != 1 {
		return fmt.Errorf("slices %+v", slices.Items)
	}
	if e := slices.Items[0].Endpoints[0]; e.Addresses[0] != address || *e.Conditions.Ready != ready || *slices.Items[0].Ports[0].Port != 8080 {
		return fmt.Errorf("endpoint %+v, want %s ready %t", e, address, ready)
	}
	return nil
}

// The whole path: controllers, gateways and the control channel inside the tunnel, with the
// permissions and policies of an installation, between clusters with the same pod CIDR.
func TestAnExportedServiceIsImportedThroughTheTunnel(t *testing.T) {
	p := newPair(t)
	for _, c := range []*cluster{p.a, p.b} {
		c.InstallCRDs(t, fstest.MapFS{"exports.yaml": {Data: mcscrds.ServiceExportCRD}, "imports.yaml": {Data: mcscrds.ServiceImportCRD}})
	}
	_, a := p.join(t)
	must(t, p.b.Namespace(t.Context(), shop))
	p.a.exportService(t, serviceName, podAddresses[0])
	first, second := seen(t, a, podAddresses[0]), seen(t, a, podAddresses[1])
	within(t, time.Minute, "the Service is imported", func() error { return p.b.imported(t, "a", first, true) })
	within(t, time.Minute, "the exporting cluster imports it too", func() error { return p.a.imported(t, "a", podAddresses[0], true) })
	for _, pod := range p.b.pods {
		if out, err := pod.Try("ping", "-n", "-c", "1", "-W", "2", first); err != nil {
			t.Errorf("the endpoint is not reached:\n%s", out)
		}
	}

	p.a.setEndpoint(t, serviceName, podAddresses[1])
	took := within(t, 20*time.Second, "another endpoint arrives", func() error { return p.b.imported(t, "a", second, true) })
	t.Logf("the change arrived after %v", took.Round(10*time.Millisecond))

	p.a.gateways["b-0"].remove(t)
	took = within(t, 20*time.Second, "no endpoint is ready without a link", func() error { return p.b.imported(t, "a", second, false) })
	t.Logf("not ready %v after the only remote gateway ended", took.Round(10*time.Millisecond))
	p.a.runGateway(t, "b-0", 1, "10").serveNodePort(t)
	within(t, time.Minute, "the endpoint is ready again", func() error { return p.b.imported(t, "a", second, true) })

	must(t, p.a.admin.ServiceExports(shop).Delete(t.Context(), serviceName, metav1.DeleteOptions{}))
	for _, c := range []*cluster{p.a, p.b} {
		within(t, time.Minute, "cluster "+c.name+" has no import", func() error {
			imports, err := c.admin.ServiceImports("").List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			received, err := c.admin.ReceivedServices(gatewayNamespace).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				return err
			}
			if n := len(imports.Items) + len(received.Items); n > 0 {
				return fmt.Errorf("%d imports, %d received", len(imports.Items), len(received.Items))
			}
			return nil
		})
	}
}
