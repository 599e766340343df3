//go:build apiserver

package rbac_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/rbac"
)

// A compromised controller takes over no Service of a user.
func TestTheControllerWritesOnlyServicesOfImports(t *testing.T) {
	c := newAttacked(t)
	must(t, c.Namespace(t.Context(), "shop"))
	must(t, c.Namespace(t.Context(), "strait-system"))
	must(t, c.Namespace(t.Context(), gatewayNamespace))
	controller := clientOf(t, c.ServiceAccount(t, "strait-system", "strait-controller"))
	c.Grant(t, rbac.Controller, "strait-system", "strait-controller")

	service := func(name string, change func(*corev1.Service)) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"strait.dev/import": "web"}},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "web", Port: 80}}}}
		if change != nil {
			change(s)
		}
		return s
	}
	slice := func(name string, labels map[string]string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.71.0.5"}}}}
	}
	own := map[string]string{"strait.dev/import": "web", "endpointslice.kubernetes.io/managed-by": "controller.strait.dev", "kubernetes.io/service-name": "derived-x"}
	others := map[string]string{"kubernetes.io/service-name": "web"}
	create := func(s *corev1.Service) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := controller.Services("shop").Create(ctx, s, metav1.CreateOptions{})
			return err
		}
	}
	createSlice := func(s *discoveryv1.EndpointSlice) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := controller.EndpointSlices("shop").Create(ctx, s, metav1.CreateOptions{})
			return err
		}
	}
	unlabelled := func(s *corev1.Service) { s.Labels = nil }
	enforced(t, func() error { return create(service("derived-y", unlabelled))(t.Context()) })

	made, err := controller.Services("shop").Create(t.Context(), service("derived-x", nil), metav1.CreateOptions{})
	must(t, err)
	made.Spec.Ports[0].Port = 81
	made, err = controller.Services("shop").Update(t.Context(), made, metav1.UpdateOptions{})
	must(t, err)
	must(t, createSlice(slice("derived-x-1", own))(t.Context()))
	must(t, controller.EndpointSlices("shop").Delete(t.Context(), "derived-x-1", metav1.DeleteOptions{}))
	_, err = controller.Services(gatewayNamespace).Create(t.Context(), service("b-0", unlabelled), metav1.CreateOptions{})
	must(t, err)

	user, err := c.admin.Services("shop").Create(t.Context(), service("web", unlabelled), metav1.CreateOptions{})
	must(t, err)
	userSlice, err := c.admin.EndpointSlices("shop").Create(t.Context(), slice("web-1", others), metav1.CreateOptions{})
	must(t, err)
	const label, form, managed = "that have the label strait.dev/import", "has the type ClusterIP, and no selector and external IPs", "only EndpointSlices that it manages"
	update := func(s *corev1.Service, change func(*corev1.Service)) func(context.Context) error {
		return func(ctx context.Context) error {
			next := s.DeepCopy()
			change(next)
			_, err := controller.Services("shop").Update(ctx, next, metav1.UpdateOptions{})
			return err
		}
	}
	refuse(t, []attack{
		{"a Service of a user, deleted", func(ctx context.Context) error {
			return controller.Services("shop").Delete(ctx, "web", metav1.DeleteOptions{})
		}, label},
		{"a Service of a user, labelled", update(user, func(s *corev1.Service) { s.Labels = made.Labels }), label},
		{"a Service of a user, redirected", update(user, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"a": "b"} }), label},
		{"a Service without the label", create(service("derived-y", unlabelled)), label},
		{"a derived Service without the label", update(made, func(s *corev1.Service) { s.Labels = nil }), label},
		{"a Service with the name of a user's", create(service("other", nil)), form},
		{"a load balancer", create(service("derived-y", func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer })), form},
		{"a selector", create(service("derived-y", func(s *corev1.Service) { s.Spec.Selector = map[string]string{"a": "b"} })), form},
		{"external IPs", update(made, func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} }), form},
		{"endpoints of a Service of a user", createSlice(slice("web-2", others)), label},
		{"endpoints that Kubernetes manages", createSlice(slice("web-2", map[string]string{"strait.dev/import": "web", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"})), managed},
		{"endpoints of a user, changed", func(ctx context.Context) error {
			next := userSlice.DeepCopy()
			next.Labels, next.Endpoints[0].Addresses = own, []string{"10.71.0.6"}
			_, err := controller.EndpointSlices("shop").Update(ctx, next, metav1.UpdateOptions{})
			return err
		}, label},
		{"endpoints of a user, deleted", func(ctx context.Context) error {
			return controller.EndpointSlices("shop").Delete(ctx, "web-1", metav1.DeleteOptions{})
		}, label},
	})
	must(t, controller.Services("shop").Delete(t.Context(), "derived-x", metav1.DeleteOptions{}))
}
