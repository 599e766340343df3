//go:build apiserver

package gateway

import (
	"context"
	"encoding/json"
	"net/netip"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/control"
	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/test/kube"
)

// The API server returns objects as the gateway wrote them, so that a gateway that restarts
// recognises them.
func TestARestartWritesNothingToARealAPIServer(t *testing.T) {
	cluster := kube.Shared(t)
	cluster.InstallCRDs(t, crds.Files)
	must(t, cluster.Namespace(t.Context(), "received"))
	c, err := client.New(cluster.Admin())
	must(t, err)
	p := read[v1alpha1.Peering](t, peeringSpec)
	p.Name, p.Spec.ClusterID = "received", "received"
	p, err = c.Peerings().Create(t.Context(), p, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { must(t, c.Peerings().Delete(context.Background(), p.Name, metav1.DeleteOptions{})) })
	policy := &importPolicy{uid: p.UID, maxServices: 9, maxEndpoints: 9, maxBytes: 1 << 20, prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/16")}}
	options := &Options{Peering: p.Name, Namespace: "received"}
	key := control.ServiceKey{Namespace: "shop", Name: "web"}
	text, err := json.Marshal(service(t, key.Name))
	must(t, err)
	apply := func(existing map[string]storedService) (version string, all map[string]storedService) {
		t.Helper()
		s := newReceivedServices(c, options, policy, new(writeBudget), existing)
		must(t, s.Apply(t.Context(), []control.ServiceRecord{{Key: key, JSON: text}}, nil))
		o, err := c.ReceivedServices("received").Get(t.Context(), "web.shop.received", metav1.GetOptions{})
		must(t, err)
		stored, err := storedServiceOf(o)
		must(t, err)
		if s.stored[o.Name] != stored {
			t.Errorf("stored as %+v, read as %+v", s.stored[o.Name], stored)
		}
		return o.ResourceVersion, map[string]storedService{o.Name: stored}
	}
	written, objects := apply(make(map[string]storedService))
	if again, _ := apply(objects); again != written {
		t.Error("it is written again")
	}
}
