package gateway

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/translate"
	"strait.dev/strait/test/fakekube"
	"strait.dev/strait/test/kube"
)

func read[T any](t *testing.T, text string) *T {
	t.Helper()
	object := new(T)
	must(t, yaml.UnmarshalStrict([]byte(text), object))
	return object
}

// created creates an object that is gone after the test.
func (w *fixture) created(t *testing.T, create func(context.Context) error, remove func(context.Context) error) {
	t.Helper()
	must(t, create(t.Context()))
	t.Cleanup(func() { _ = remove(context.Background()) }) // a test may have done so
}

// network is the ClusterNetwork of cluster a, with the controller's status.
func (w *fixture) network(t *testing.T) {
	t.Helper()
	kind := w.admin.ClusterNetworks()
	w.created(t, func(ctx context.Context) error {
		n := read[v1alpha1.ClusterNetwork](t, `
metadata: {name: default}
spec: {internalCIDRs: [10.80.0.0/16], externalCIDRs: [10.70.0.0/16], remapPools: [10.64.0.0/10], overlay: {mtu: 1400}}`)
		_, err := kind.Create(ctx, n, metav1.CreateOptions{})
		return err
	}, func(ctx context.Context) error {
		return kind.Delete(ctx, v1alpha1.ClusterNetworkName, metav1.DeleteOptions{})
	})
	_, err := kind.ApplyStatus(t.Context(), read[v1alpha1.ClusterNetwork](t, `
metadata: {name: default}
status: {clusterID: a, podCIDRs: [10.0.0.0/16], serviceCIDRs: [10.96.0.0/16]}`), "strait-controller")
	must(t, err)
}

const peeringSpec = `
metadata: {name: b}
spec:
  clusterID: b
  prefixes: [{cidr: 10.0.0.0/16}]
  localPrefixes: [10.0.0.0/16]
`

// peering is the Peering b, without a status.
func (w *fixture) peering(t *testing.T) {
	t.Helper()
	w.created(t, func(ctx context.Context) error {
		_, err := w.admin.Peerings().Create(ctx, read[v1alpha1.Peering](t, peeringSpec), metav1.CreateOptions{})
		return err
	}, func(ctx context.Context) error { return w.admin.Peerings().Delete(ctx, "b", metav1.DeleteOptions{}) })
}

// place is what the controller gives the gateway.
func (w *fixture) place(t *testing.T) {
	t.Helper()
	_, err := w.admin.Peerings().ApplyStatus(t.Context(), read[v1alpha1.Peering](t, `
metadata: {name: b}
status:
  prefixes: [{cidr: 10.0.0.0/16, seenAs: 10.71.0.0/16}]
  gateways: [{name: b-0, number: 1, internalAddresses: [10.80.0.1]}]`), "strait-controller")
	must(t, err)
}

// report is what the gateway reports, nil if nothing.
func (w *fixture) report(t *testing.T) *v1alpha1.GatewayReportStatus {
	t.Helper()
	r, err := w.admin.GatewayReports(w.options.Namespace).Get(t.Context(), w.options.Name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return &r.Status
}

// links are those that the gateway reports.
func (w *fixture) links(t *testing.T) []v1alpha1.LinkStatus {
	t.Helper()
	if r := w.report(t); r != nil {
		return r.Links
	}
	return nil
}

// attach creates a NodeAttachment.
func (w *fixture) attach(t *testing.T, name string, index int32, underlay, internal v1alpha1.IP, podCIDRs ...v1alpha1.CIDR) {
	t.Helper()
	n := &v1alpha1.NodeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeAttachmentSpec{
		Index: index, UnderlayAddresses: []v1alpha1.IP{underlay}, InternalAddresses: []v1alpha1.IP{internal}, PodCIDRs: podCIDRs,
	}}
	w.created(t, func(ctx context.Context) error {
		_, err := w.admin.NodeAttachments().Create(ctx, n, metav1.CreateOptions{})
		return err
	}, func(ctx context.Context) error { return w.detach(ctx, name) })
}

func (w *fixture) detach(ctx context.Context, name string) error {
	return w.admin.NodeAttachments().Delete(ctx, name, metav1.DeleteOptions{})
}

// twoNodes are node-1 and node-2 with a range of pods each.
func (w *fixture) twoNodes(t *testing.T) {
	t.Helper()
	w.attach(t, "node-1", 1, "192.0.2.21", "10.80.0.11", "10.0.1.0/24")
	w.attach(t, "node-2", 2, "192.0.2.22", "10.80.0.12", "10.0.2.0/24")
}

// podAddresses sets the addresses of a node's pods outside of its podCIDRs.
func (w *fixture) podAddresses(t *testing.T, node string, addresses ...v1alpha1.CIDR) {
	t.Helper()
	kube.Edit(t, w.admin.NodeAttachments(), node, func(n *v1alpha1.NodeAttachment) { n.Spec.PodAddresses = addresses })
}

// A list without objects causes no event, even if it is the last one.
func TestTheLastListIsSignalledAlsoWhenItIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fakekube.New()
		list := s.Fail(func(q fakekube.Request) error {
			if q.Resource == "gatewayreports" {
				return errors.New("not yet")
			}
			return nil
		})
		o, err := newObjects(s.Client(t), Options{Peering: "b", Namespace: "strait", Settings: translate.Settings{Name: "b-0"}})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		running.Go(func() { o.run(ctx) })
		time.Sleep(time.Minute)
		if o.complete() || len(o.changed) > 0 {
			t.Error("complete without the reports")
		}
		list()
		time.Sleep(time.Minute)
		if !o.complete() || len(o.changed) == 0 {
			t.Errorf("after all lists: complete %v, %d signals", o.complete(), len(o.changed))
		}
	})
}
