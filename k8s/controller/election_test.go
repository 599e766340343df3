package controller_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/rbac"
	"strait.dev/strait/test/fakekube"
	"strait.dev/strait/test/kube"
)

// hold sets the holder of the lease, which may be empty, and returns the resource version.
func (f *fixture) hold(holder string) (at string) {
	f.Helper()
	leases := f.cluster.Kubernetes().CoordinationV1().Leases("default")
	return kube.Edit(f, leases, "strait-controller", func(lease *coordinationv1.Lease) {
		now, hour := metav1.NowMicro(), int32(3600)
		lease.Spec.HolderIdentity, lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &holder, &now, &hour
	}).ResourceVersion
}

// Both controllers work at the same time, because their leases are in different namespaces:
// each acts as the leader.
func TestF17_T19_TwoControllersAtOnceDoNoHarm(t *testing.T) {
	inMemory(t, func(_ *testing.T, f *fixture) { f.twoControllers() })
}

func (f *fixture) twoControllers() {
	f.Helper()
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
			} else if err := f.Peerings().Delete(f.Context(), name, metav1.DeleteOptions{}); !apierrors.IsNotFound(err) {
				must(f.T, err)
			}
		default:
			f.pause(time.Duration(random.IntN(300)) * time.Millisecond)
		}
		if found := f.conflictingClaims(); found != "" {
			f.Fatal(found)
		}
	}
	f.until("each node has its attachment, under an index of its own", func() string {
		list, err := f.NodeAttachments().List(f.Context(), metav1.ListOptions{})
		must(f.T, err)
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
		list, err := f.Peerings().List(f.Context(), metav1.ListOptions{})
		must(f.T, err)
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
		all, err := f.AddressClaims().List(f.Context(), metav1.ListOptions{})
		must(f.T, err)
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

// A holder that is cut off neither renews nor releases the lease. It pauses before another
// controller may lead, which does so as soon as the lease has ended.
func TestALeaseThatIsNotRenewedPassesOn(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		s := f.cluster.(memory)
		var cut atomic.Bool // set while the controller sends requests
		holder := s.Account(t, "default", "holder", rbac.Controller)
		holder.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return client.RoundTripper(func(r *http.Request) (*http.Response, error) {
				if cut.Load() && r.Method != http.MethodGet {
					return nil, errors.New("cut off")
				}
				return next.RoundTrip(r)
			})
		})
		f.start(holder, "default", "holder")
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.untilAttached("node-1 1 [10.80.0.1] [10.70.0.1]")
		f.start(f.cluster.Admin(), "default", "waiting")
		f.pause(time.Minute)
		if got := f.holder(); got != "holder" {
			t.Fatalf("the lease is held by %q while the holder renews it", got)
		}

		cut.Store(true)
		begun := time.Now()
		f.until("the holder pauses", func() string {
			if !f.logged("the lease could not be renewed; stopping work") {
				return "it does not say so"
			}
			return ""
		})
		if got := f.holder(); got != "holder" {
			t.Errorf("the lease passed to %q before the holder paused", got)
		}
		f.until("the lease passes on", func() string { return strings.TrimPrefix(f.holder(), "waiting") })
		// A lease of 15 s, seen at an attempt every 2 s, and up to 2 s after its last renewal.
		if took := time.Now().Sub(begun); took > 19*time.Second {
			t.Errorf("the lease passed on after %v", took)
		}
		f.node("node-2", "192.0.2.22", "10.0.1.0/24")
		f.untilAttached("node-1 1 [10.80.0.1] [10.70.0.1]", "node-2 2 [10.80.0.2] [10.70.0.2]")
	})
}

// holder is who has the lease.
func (f *fixture) holder() string {
	f.Helper()
	lease, err := f.Leases("default").Get(f.Context(), "strait-controller", metav1.GetOptions{})
	must(f.T, err)
	return *lease.Spec.HolderIdentity
}

// A pass that fails is repeated after a time that doubles up to a minute, and not more
// often, however long an API server refuses what a controller writes.
func TestAPassThatFailsIsRepeatedMoreAndMoreRarely(t *testing.T) {
	inMemory(t, func(t *testing.T, f *fixture) {
		var refused atomic.Int32
		stop := f.cluster.(memory).Fail(func(q fakekube.Request) error {
			if q.Resource == "nodeattachments" && q.Verb == "patch" {
				refused.Add(1)
				return apierrors.NewServiceUnavailable("busy")
			}
			return nil
		})
		f.lead()
		f.node("node-1", "192.0.2.21", "10.0.0.0/24")
		f.pause(time.Minute)
		first := refused.Load()
		f.pause(5 * time.Minute)
		if rest := refused.Load() - first; first < 5 || first > 15 || rest < 4 || rest > 6 {
			t.Errorf("%d attempts in the first minute, want 5 to 15; %d in the 5 minutes after it, want one a minute", first, rest)
		}
		stop()
		f.untilAttached("node-1 1 [10.80.0.1] [10.70.0.1]")
	})
}
