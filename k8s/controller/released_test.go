//go:build apiserver

package controller

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller/allocation"
	"strait.dev/strait/k8s/controller/network"
	"strait.dev/strait/test/kube"
)

// Another controller may already use what was announced since.
func TestARangeIsNotReleasedByAPlanThatMissedAnAnnouncement(t *testing.T) {
	cluster := kube.Shared(t)
	cluster.InstallCRDs(t, crds.Files)
	c, err := client.New(cluster.Admin())
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(err)
	peering := &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: v1alpha1.PeeringSpec{AcceptPrefixes: []v1alpha1.AcceptedCIDR{"10.1.0.0/16"}}}
	missed, err := c.Peerings().Create(t.Context(), peering, metav1.CreateOptions{})
	check(err)
	t.Cleanup(func() { check(c.Peerings().Delete(context.Background(), "b", metav1.DeleteOptions{})) })
	heard := metav1.NowMicro()
	known, err := c.Peerings().ApplyStatus(t.Context(), &v1alpha1.Peering{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Status: v1alpha1.PeeringStatus{
		Announcement: &v1alpha1.Announcement{Revision: 1, HeardAt: &heard, ClusterID: "b", Prefixes: []v1alpha1.CIDR{"10.1.0.0/16"},
			Gateways: []v1alpha1.AnnouncedGateway{{Name: "a-0", PublicKeys: []v1alpha1.PublicKey{keyThere}}}},
	}}, Manager)
	check(err)
	claim := mappedTo(v1alpha1.ClaimOwner{Kind: allocation.KindPeering, Name: "b"}, "10.1.0.0/16", "10.64.0.0/16")
	for _, row := range []struct {
		plans *v1alpha1.Peering
		want  bool
	}{{missed, false}, {known, true}} {
		p := newPlan(c, &network.Network{}, nil, []*v1alpha1.Peering{row.plans}, nil, time.Now())
		if released, err := p.Released(t.Context(), claim); err != nil || released != row.want {
			t.Errorf("released: %v, want %v; %v", released, row.want, err)
		}
	}
}
