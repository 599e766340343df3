//go:build apiserver

package controller_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/test/kube"
)

func TestAControllerPausesWithoutTheLeaseAndGoesOnWithIt(t *testing.T) {
	f := newFixture(t, kube.Shared(t))
	f.lead()
	f.node("node-1", "192.0.2.21", "10.0.0.0/24")
	f.untilAttached("node-1 1 [10.80.0.1] [10.70.0.1]")

	f.hold("another")
	f.until("the controller waits", func() string {
		if !f.log.contain("waiting for the lease") {
			return "it does not say so"
		}
		return ""
	})
	for path, want := range map[string]string{"/healthz": "ok\n", "/readyz": "ok\n", "/metrics": "\nstrait_controller_leader 0\n"} {
		if got := f.get("first", path); !strings.Contains(got, want) {
			t.Errorf("%s of a controller that waits: %q, want %q", path, got, want)
		}
	}
	f.node("node-2", "192.0.2.22", "10.0.1.0/24")
	released := f.hold("")
	f.untilAttached("node-1 1 [10.80.0.1] [10.70.0.1]", "node-2 2 [10.80.0.2] [10.70.0.2]")
	second, err := f.NodeAttachments().Get(t.Context(), "node-2", metav1.GetOptions{})
	must(t, err)
	if order, err := resourceversion.CompareResourceVersion(second.ResourceVersion, released); err != nil || order <= 0 {
		t.Errorf("node-2 was attached while another held the lease: at %s, which was let go at %s (%v)", second.ResourceVersion, released, err)
	}
}

// hold gives the lease to somebody, or to nobody, and returns at which resource version.
func (f *fixture) hold(holder string) (at string) {
	f.Helper()
	leases := f.cluster.Kubernetes().CoordinationV1().Leases("default")
	return kube.Edit(f, leases, "strait-controller", func(lease *coordinationv1.Lease) {
		now, hour := metav1.NowMicro(), int32(3600)
		lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &holder, &now, &hour
	}).ResourceVersion
}

// Both work at once, because their leases are in different namespaces: as if each was
// sure to lead.
func TestF17_T19_TwoControllersAtOnceDoNoHarm(t *testing.T) {
	f := newFixture(t, kube.Shared(t))
	f.node("node-0", "192.0.2.100", "10.0.100.0/24")
	f.start(f.cluster.Admin(), "default", "first")
	f.start(f.cluster.Admin(), "kube-system", "second")
	random := rand.New(rand.NewPCG(1, 2))
	nodes, peerings := map[int]bool{}, map[int]bool{}
	for range 60 {
		i := random.IntN(8)
		name := fmt.Sprintf("node-1%d", i)
		switch random.IntN(4) {
		case 0, 1:
			if nodes[i] = !nodes[i]; nodes[i] {
				f.node(name, fmt.Sprintf("192.0.2.%d", i+1), fmt.Sprintf("10.0.%d.0/24", i))
			} else {
				f.deleteNode(name)
			}
		case 2:
			name = fmt.Sprintf("b%d", i)
			if peerings[i] = !peerings[i]; peerings[i] {
				f.peer(name, 1+random.Int32N(2), fmt.Sprintf("10.0.0.0/1%d", 4+random.IntN(4)))
			} else if err := f.Peerings().Delete(t.Context(), name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
				must(t, err)
			}
		default:
			time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		}
		if found := f.conflictingClaims(); found != "" {
			t.Fatal(found)
		}
	}
	f.until("each node has its attachment, under an index of its own", func() string {
		list, err := f.NodeAttachments().List(t.Context(), metav1.ListOptions{})
		must(t, err)
		indices := map[int32]string{}
		for _, a := range list.Items {
			if other := indices[a.Spec.Index]; other != "" {
				return fmt.Sprintf("%s and %s both have %d", other, a.Name, a.Spec.Index)
			}
			indices[a.Spec.Index] = a.Name
		}
		wanted := 1
		for _, there := range nodes {
			if there {
				wanted++
			}
		}
		if len(list.Items) != wanted {
			return fmt.Sprintf("%d attachments, want %d", len(list.Items), wanted)
		}
		return ""
	})
	f.until("each peering is seen, and nothing is left over", func() string {
		list, err := f.Peerings().List(t.Context(), metav1.ListOptions{})
		must(t, err)
		wanted := 0
		for _, p := range list.Items {
			if got := f.views(p.Name); !strings.Contains(got, ">") {
				return p.Name + ": " + got
			}
			wanted += 1 + 2*int(p.Spec.Gateway.Replicas)
		}
		for _, there := range nodes {
			if there {
				wanted += 2
			}
		}
		all, err := f.AddressClaims().List(t.Context(), metav1.ListOptions{})
		must(t, err)
		if wanted += 2; len(all.Items) != wanted {
			return fmt.Sprintf("%d claims, want %d", len(all.Items), wanted)
		}
		return ""
	})
}

// conflictingClaims names two claims that are bound and in conflict.
func (f *fixture) conflictingClaims() string {
	list, err := f.AddressClaims().List(f.Context(), metav1.ListOptions{})
	must(f.T, err)
	var bound []ipam.Grant
	for _, claim := range list.Items {
		if !claim.Status.Bound {
			continue
		}
		grant := claims.Grant(claim.Spec)
		for _, other := range bound {
			if other.Prefix.Overlaps(grant.Prefix) || other.Owner == grant.Owner && other.Wanted == grant.Wanted {
				return fmt.Sprintf("both in force: %+v and %+v", other, grant)
			}
		}
		bound = append(bound, grant)
	}
	return ""
}
