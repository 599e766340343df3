//go:build apiserver

package rbac_test

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/rbac"
)

// receivedService is Service shop/NAME of a Peering, as its gateway writes it.
func receivedService(name, peering string, uid types.UID) *v1alpha1.ReceivedService {
	return &v1alpha1.ReceivedService{
		ObjectMeta: metav1.ObjectMeta{
			Name: name + ".shop." + peering, Labels: map[string]string{"strait.dev/peering": peering},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "strait.dev/v1alpha1", Kind: "Peering", Name: peering, UID: uid}},
		},
		Spec: v1alpha1.ReceivedServiceSpec{Peering: peering, Service: v1alpha1.ServiceRecord{
			Namespace: "shop", Name: name, ExportedAt: metav1.Now(), Type: v1alpha1.ServiceRecordHeadless,
		}},
	}
}

func TestT6_AGatewayWritesOnlyTheReceivedServicesOfItsOwnPeering(t *testing.T) {
	c := newAttacked(t)
	b, err := c.admin.Peerings().Get(t.Context(), "b", metav1.GetOptions{})
	must(t, err)
	gateway, _ := c.bound(t, gatewayNamespace, "strait-gateway", "b-0", "node-1")
	c.Grant(t, rbac.Gateway, gatewayNamespace, "strait-gateway")
	sibling, _ := c.bound(t, gatewayNamespace, "strait-gateway", "b-10", "node-1")
	other, _ := c.bound(t, gatewayNamespace, "strait-gateway", "c-0", "node-1")
	similar, _ := c.bound(t, gatewayNamespace, "strait-gateway", "b-0-0", "node-1") // of Peering b-0
	unbound := clientOf(t, c.ServiceAccount(t, gatewayNamespace, "strait-gateway"))
	apply := func(by *client.Client, o *v1alpha1.ReceivedService) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := by.ReceivedServices(gatewayNamespace).Apply(ctx, o, "strait-gateway")
			return err
		}
	}
	remove := func(by *client.Client, name string) func(context.Context) error {
		return func(ctx context.Context) error {
			return by.ReceivedServices(gatewayNamespace).Delete(ctx, name, metav1.DeleteOptions{})
		}
	}
	merge := func(name, body string, subresource ...string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := gateway.ReceivedServices(gatewayNamespace).Patch(ctx, name, types.MergePatchType, []byte(body), metav1.PatchOptions{}, subresource...)
			return err
		}
	}
	enforced(t, func() error { return apply(gateway, receivedService("web", "c", b.UID))(t.Context()) })

	must(t, apply(gateway, receivedService("web", "b", b.UID))(t.Context()))
	must(t, apply(sibling, receivedService("web", "b", b.UID))(t.Context()))
	must(t, apply(sibling, receivedService("gone", "b", b.UID))(t.Context()))
	must(t, remove(gateway, "gone.shop.b")(t.Context()))
	must(t, apply(other, receivedService("web", "c", b.UID))(t.Context()))
	must(t, apply(similar, receivedService("web", "b-0", b.UID))(t.Context()))

	// The controller has written a status.
	planned, err := c.admin.ReceivedServices(gatewayNamespace).Get(t.Context(), "web.shop.b", metav1.GetOptions{})
	must(t, err)
	planned.Status.Ports = []v1alpha1.GatewayServicePort{{Port: 20000}}
	_, err = c.admin.ReceivedServices(gatewayNamespace).UpdateStatus(t.Context(), planned, metav1.UpdateOptions{})
	must(t, err)
	must(t, apply(gateway, receivedService("web", "b", b.UID))(t.Context()))
	before, err := c.admin.ReceivedServices(gatewayNamespace).Get(t.Context(), "web.shop.c", metav1.GetOptions{})
	must(t, err)

	changed := func(edit func(*v1alpha1.ReceivedService)) func(context.Context) error {
		o := receivedService("web", "b", b.UID)
		edit(o)
		return apply(gateway, o)
	}
	const another, owned = "only the ReceivedServices of the Peering of its own pod", "must be owned by its Peering"
	refuse(t, []attack{
		{"a Service of another Peering", apply(gateway, receivedService("new", "c", b.UID)), another},
		{"an existing Service of another Peering", apply(gateway, receivedService("web", "c", b.UID)), another},
		{"a Service of a Peering with a similar name", apply(similar, receivedService("new", "b", b.UID)), another},
		{"a Service of a Peering with a similar name, the other way", apply(gateway, receivedService("new", "b-0", b.UID)), another},
		{"another Peering's Service is deleted", remove(gateway, "web.shop.c"), another},
		{"a Service, with a token that is not bound", apply(unbound, receivedService("web", "b", b.UID)), another},
		{"a Service is deleted, with a token that is not bound", remove(unbound, "web.shop.b"), another},
		{"a Service becomes one of another Peering", merge("web.shop.b", `{"spec": {"peering": "c"}}`), "the name must be that of the Service"},
		{"another Peering's Service becomes its own", merge("web.shop.c", `{"spec": {"peering": "b"}}`), "the name must be that of the Service"},
		{"a name that is not that of the Service", changed(func(o *v1alpha1.ReceivedService) { o.Name = "db.shop.b" }), "the name must be that of the Service"},
		{"no label", changed(func(o *v1alpha1.ReceivedService) { o.Labels = nil }), "has the label strait.dev/peering"},
		{"no owner", changed(func(o *v1alpha1.ReceivedService) { o.OwnerReferences = nil }), owned},
		{"another owner", changed(func(o *v1alpha1.ReceivedService) { o.OwnerReferences[0].Name = "c" }), owned},
		{"an owner of another kind", changed(func(o *v1alpha1.ReceivedService) { o.OwnerReferences[0].Kind = "ClusterNetwork" }), owned},
		{"two owners", changed(func(o *v1alpha1.ReceivedService) {
			o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{APIVersion: "strait.dev/v1alpha1", Kind: "Peering", Name: "b", UID: "u"})
		}), owned},
		{"a finalizer", changed(func(o *v1alpha1.ReceivedService) { o.Finalizers = []string{"strait.dev/never"} }), "has no finalizers"},
		{"a status", merge("web.shop.b", `{"status": {"ports": [{"port": 30000}]}}`, "status"), "cannot patch resource"},
		{"a status, with the name of the controller", func(ctx context.Context) error {
			_, err := gateway.ReceivedServices(gatewayNamespace).ApplyStatus(ctx, receivedService("web", "b", b.UID), "strait-controller")
			return err
		}, "cannot patch resource"},
		{"all Services are deleted", func(ctx context.Context) error {
			return gateway.ReceivedServices(gatewayNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		}, "cannot deletecollection resource"},
		{"an exported Service", func(ctx context.Context) error {
			_, err := gateway.ExportedServices(gatewayNamespace).Apply(ctx, &v1alpha1.ExportedService{ObjectMeta: metav1.ObjectMeta{Name: "web.shop"}}, "a")
			return err
		}, "cannot patch resource"},
		{"a Service elsewhere", func(ctx context.Context) error {
			_, err := gateway.ReceivedServices("default").Apply(ctx, receivedService("web", "b", b.UID), "strait-gateway")
			return err
		}, "cannot patch resource"},
	})
	after, err := c.admin.ReceivedServices(gatewayNamespace).Get(t.Context(), "web.shop.c", metav1.GetOptions{})
	must(t, err)
	if after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the Service of Peering c became %+v", after)
	}
	// A write of the object does not change its status.
	must(t, merge("web.shop.b", `{"status": null}`)(t.Context()))
	must(t, changed(func(o *v1alpha1.ReceivedService) { o.Status.Ports = []v1alpha1.GatewayServicePort{{Port: 30000}} })(t.Context()))
	if is, err := c.admin.ReceivedServices(gatewayNamespace).Get(t.Context(), "web.shop.b", metav1.GetOptions{}); err != nil || len(is.Status.Ports) != 1 || is.Status.Ports[0].Port != 20000 {
		t.Errorf("the status became %+v, %v", is.Status, err)
	}
}
