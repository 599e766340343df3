//go:build apiserver

package rbac_test

import (
	"context"
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/rbac"
)

// The names of Services that are derived from imports.
const derived, another = "derived-0123456789abcdef", "derived-ghijklmnopqrstuv"

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
	own := map[string]string{"strait.dev/import": "web", "endpointslice.kubernetes.io/managed-by": "controller.strait.dev", "kubernetes.io/service-name": derived}
	ofService := func(name string) map[string]string {
		labels := maps.Clone(own)
		labels["kubernetes.io/service-name"] = name
		return labels
	}
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
	enforced(t, func() error { return create(service(another, unlabelled))(t.Context()) })

	made, err := controller.Services("shop").Create(t.Context(), service(derived, nil), metav1.CreateOptions{})
	must(t, err)
	made.Spec.Ports[0].Port = 81
	made, err = controller.Services("shop").Update(t.Context(), made, metav1.UpdateOptions{})
	must(t, err)
	must(t, createSlice(slice(derived+"-1", own))(t.Context()))
	madeSlice, err := controller.EndpointSlices("shop").Create(t.Context(), slice(derived+"-2", own), metav1.CreateOptions{})
	must(t, err)
	must(t, controller.EndpointSlices("shop").Delete(t.Context(), derived+"-1", metav1.DeleteOptions{}))
	user, err := c.admin.Services("shop").Create(t.Context(), service("web", unlabelled), metav1.CreateOptions{})
	must(t, err)
	userSlice, err := c.admin.EndpointSlices("shop").Create(t.Context(), slice("web-1", others), metav1.CreateOptions{})
	must(t, err)
	const label, form, managed = "that have the label strait.dev/import", "has the type ClusterIP, and no selector and external IPs", "only EndpointSlices that it manages"
	const attached = "EndpointSlices only for Services that are derived from imports"
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
		{"a Service without the label", create(service(another, unlabelled)), label},
		{"a derived Service without the label", update(made, func(s *corev1.Service) { s.Labels = nil }), label},
		{"a Service with the name of a user's", create(service("other", nil)), form},
		{"a load balancer", create(service(another, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer })), form},
		{"a selector", create(service(another, func(s *corev1.Service) { s.Spec.Selector = map[string]string{"a": "b"} })), form},
		{"external IPs", update(made, func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} }), form},
		{"endpoints of a Service of a user", createSlice(slice("web-2", others)), label},
		{"endpoints that are labelled, of a Service of a user", createSlice(slice("web-2", ofService("web"))), attached},
		{"endpoints of a Service of a user with a similar name", createSlice(slice("web-2", ofService("derived-web"))), attached},
		{"endpoints of no Service", createSlice(slice("web-2", ofService(""))), attached},
		{"endpoints that are moved to a Service of a user", func(ctx context.Context) error {
			next := madeSlice.DeepCopy()
			next.Labels["kubernetes.io/service-name"] = "web"
			_, err := controller.EndpointSlices("shop").Update(ctx, next, metav1.UpdateOptions{})
			return err
		}, attached},
		{"endpoints of the Service of a gateway", func(ctx context.Context) error {
			_, err := controller.EndpointSlices(gatewayNamespace).Create(ctx, slice("b-0-2", ofService("b-0")), metav1.CreateOptions{})
			return err
		}, attached},
		{"an external name", create(service(another, func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "evil.example"
		})), form},
		{"an external name, later", update(made, func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName, s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ServiceTypeExternalName, "evil.example", "", nil
		}), form},
		{"a node port", update(made, func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort }), form},
		{"a Service with a name that is similar to derived ones", create(service("derived-web", nil)), form},
		{"endpoints that Kubernetes manages", createSlice(slice("web-2", map[string]string{"strait.dev/import": "web", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io", "kubernetes.io/service-name": derived})), managed},
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
	must(t, controller.Services("shop").Delete(t.Context(), derived, metav1.DeleteOptions{}))
}

// A compromised controller makes no Service in the namespace of the gateways that leads
// elsewhere than to a gateway.
func TestTheControllerWritesOnlyServicesOfGatewaysInTheirNamespace(t *testing.T) {
	c := newAttacked(t)
	must(t, c.Namespace(t.Context(), "strait-system"))
	must(t, c.Namespace(t.Context(), gatewayNamespace))
	controller := clientOf(t, c.ServiceAccount(t, "strait-system", "strait-controller"))
	c.Grant(t, rbac.Controller, "strait-system", "strait-controller")
	services := controller.Services(gatewayNamespace)

	service := func(name string, change func(*corev1.Service)) *corev1.Service {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"strait.dev/peering": "b"}}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Name: "wireguard", Protocol: corev1.ProtocolUDP, Port: 51840}},
			Selector: map[string]string{"strait.dev/peering": "b", "statefulset.kubernetes.io/pod-name": "b-0"},
		}}
		if change != nil {
			change(s)
		}
		return s
	}
	create := func(change func(*corev1.Service)) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := services.Create(ctx, service("b-1", change), metav1.CreateOptions{})
			return err
		}
	}
	apply := func(by *client.Client, manager string, change func(*corev1.Service)) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := by.Services(gatewayNamespace).Apply(ctx, service("b-0", change), manager)
			return err
		}
	}
	externalIPs := func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} }
	enforced(t, func() error { return create(externalIPs)(t.Context()) })

	must(t, apply(controller, "strait-controller", nil)(t.Context()))
	balanced := func(s *corev1.Service) {
		s.Spec.Type, s.Spec.LoadBalancerSourceRanges = corev1.ServiceTypeLoadBalancer, []string{"198.51.100.0/24"}
	}
	must(t, apply(controller, "strait-controller", balanced)(t.Context()))
	must(t, apply(c.admin, "an administrator", func(s *corev1.Service) {
		balanced(s)
		externalIPs(s)
		s.Spec.LoadBalancerIP = "192.0.2.7"
	})(t.Context()))
	must(t, apply(controller, "strait-controller", balanced)(t.Context())) // what an administrator sets stays
	made, err := services.Create(t.Context(), service("b-2", nil), metav1.CreateOptions{})
	must(t, err)
	update := func(of *corev1.Service, change func(*corev1.Service)) func(context.Context) error {
		return func(ctx context.Context) error {
			next := of.DeepCopy()
			change(next)
			_, err := services.Update(ctx, next, metav1.UpdateOptions{})
			return err
		}
	}
	foreign, err := c.admin.Services(gatewayNamespace).Create(t.Context(), service("foreign", func(s *corev1.Service) { s.Labels = nil }), metav1.CreateOptions{})
	must(t, err)

	const form, label = "a Service of a gateway selects the gateway's pod", "Services that have the label strait.dev/peering"
	name := func(s *corev1.Service) {
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "evil.example"
	}
	refuse(t, []attack{
		{"external IPs", create(externalIPs), form},
		{"other external IPs, later", apply(controller, "strait-controller", func(s *corev1.Service) { balanced(s); s.Spec.ExternalIPs = []string{"192.0.2.2"} }), form},
		{"an external name", create(name), form},
		{"an external name, later", update(made, func(s *corev1.Service) { name(s); s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil }), form},
		{"external IPs, later", update(made, externalIPs), form},
		{"no selector, later", update(made, func(s *corev1.Service) { s.Spec.Selector = nil }), form},
		{"an IP of a load balancer", create(func(s *corev1.Service) { balanced(s); s.Spec.LoadBalancerIP = "192.0.2.3" }), form},
		{"no selector", create(func(s *corev1.Service) { s.Spec.Selector = nil }), form},
		{"the pods of another Peering", create(func(s *corev1.Service) { s.Spec.Selector["strait.dev/peering"] = "c" }), form},
		{"a pod of another Peering", create(func(s *corev1.Service) { s.Spec.Selector["statefulset.kubernetes.io/pod-name"] = "c-0" }), form},
		{"all pods", create(func(s *corev1.Service) { s.Spec.Selector = map[string]string{"strait.dev/peering": "b"} }), form},
		{"without the label", create(func(s *corev1.Service) { s.Labels = nil }), label},
		{"a Service of a user, labelled", update(foreign, func(s *corev1.Service) { s.Labels = made.Labels }), label},
		{"a Service of a user, deleted", func(ctx context.Context) error { return services.Delete(ctx, "foreign", metav1.DeleteOptions{}) }, label},
	})
	must(t, services.Delete(t.Context(), "b-0", metav1.DeleteOptions{}))
}
