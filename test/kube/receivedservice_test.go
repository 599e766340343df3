//go:build apiserver

package kube

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
)

const notItsService = "the name must be that of the Service, of its namespace and of the Peering, joined by dots"

func TestAReceivedServiceHasTheNameOfItsServiceAndPeering(t *testing.T) {
	c := Shared(t)
	c.InstallCRDs(t, crds.Files)
	must(t, c.Namespace(t.Context(), "gateways"))
	admin, err := client.New(c.Admin())
	must(t, err)
	for name, valid := range map[string]bool{"web.shop.b": true, "web.shop.c": false, "shop.web.b": false, "web.shop": false, "web.shop.b.b": false} {
		_, err := admin.ReceivedServices("gateways").Create(t.Context(), &v1alpha1.ReceivedService{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: v1alpha1.ReceivedServiceSpec{Peering: "b", Service: v1alpha1.ServiceRecord{
				Namespace: "shop", Name: "web", ExportedAt: metav1.Now(), Type: v1alpha1.ServiceRecordClusterSetIP,
			}},
		}, metav1.CreateOptions{})
		if valid && err != nil || !valid && (err == nil || !strings.Contains(err.Error(), notItsService)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
