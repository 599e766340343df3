//go:build apiserver || nightly

package claims_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/crds"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/test/kube"
)

func TestMain(m *testing.M) { os.Exit(kube.Main(m)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// lengths are ranges of several lengths that owners want to see somewhere in a pool.
var lengths = []netip.Prefix{pfx("192.168.0.0/22"), pfx("192.168.4.0/23"), pfx("192.168.6.0/24"), pfx("192.168.7.0/24")}

// settle lets a writer work until it is not overtaken by another one.
func (w *writer) settle(t *testing.T) []claims.Spec {
	t.Helper()
	w.life.restart(0)
	w.reload()
	for range 50 {
		inForce, err := claims.Ensure(t.Context(), w.client, w)
		if err == nil {
			return inForce
		}
		if !errors.Is(err, claims.ErrUnsettled) {
			t.Fatal(err)
		}
	}
	t.Fatal("still unsettled")
	return nil
}

// live lets a writer work, be killed and work again, while its owners change.
func (w *writer) live(ctx context.Context, t *testing.T, random *rand.Rand, lives int) {
	for range lives {
		w.change(random)
		w.life.restart(0.2)
		w.reloadPartly(random)
		_, err := claims.Ensure(ctx, w.client, w)
		if err != nil && !errors.Is(err, errKilled) && !errors.Is(err, claims.ErrUnsettled) {
			t.Error(err)
		}
	}
}

// change lets an owner come, go, or want something else.
func (w *fakeCluster) change(random *rand.Rand) {
	name := fmt.Sprint(w.prefix(), random.IntN(4))
	switch random.IntN(5) {
	case 0:
		w.remove(name)
	case 1:
		w.set(name) // an address
	default:
		first := random.IntN(len(lengths))
		w.set(name, lengths[first:first+1+random.IntN(len(lengths)-first)]...)
	}
}

// race is one round: two writers want overlapping blocks of one pool, each is killed
// at its writes, and at last each has all it wants and nothing is left over.
func race(t *testing.T, admin *rest.Config, ordinal int) {
	w := newFakeCluster(ordinal, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(ordinal >> 2), byte(ordinal << 6), 0}), 18))
	random := rand.New(rand.NewPCG(uint64(ordinal), 0))
	a, b := newWriter(t, admin, w, uint64(2*ordinal)), newWriter(t, admin, w, uint64(2*ordinal+1))
	scheduler := newScheduler(random, a.life, b.life)
	w.change(random)
	var both sync.WaitGroup
	for i, one := range []*writer{a, b} {
		both.Go(func() {
			defer scheduler.end(one.life)
			one.live(t.Context(), t, rand.New(rand.NewPCG(uint64(ordinal), uint64(1+i))), 1+i)
		})
	}
	both.Wait()
	first := a.settle(t)
	if second := b.settle(t); !slices.Equal(names(first), names(second)) {
		t.Errorf("round %d: one writer says that %v are in force, the other %v", ordinal, names(first), names(second))
	}
	if held := fmt.Sprint(purposes(first)); held != fmt.Sprint(w.purposes()) {
		t.Errorf("round %d: in force is %v, wanted %v", ordinal, held, w.purposes())
	}
	for name := range w.owners {
		w.remove(name)
	}
	if left := a.settle(t); len(left) > 0 {
		t.Errorf("round %d: the owners are gone, and %v are in force", ordinal, names(left))
	}
}

func names(specs []claims.Spec) (names []string) {
	for _, s := range specs {
		names = append(names, ipam.ClaimName(claims.Grant(s).Prefix))
	}
	slices.Sort(names)
	return names
}

func purposes(specs []claims.Spec) (all []string) {
	for _, s := range specs {
		all = append(all, fmt.Sprint(s.Owner.Name, " ", s.For))
	}
	slices.Sort(all)
	return all
}

// purposes are what all owners want.
func (w *fakeCluster) purposes() (all []string) {
	for name, wants := range w.owners {
		for _, cidr := range wants {
			all = append(all, fmt.Sprint(name, " ", cidr))
		}
		if len(wants) == 0 {
			all = append(all, name+" ")
		}
	}
	slices.Sort(all)
	return all
}

func TestT19_F17_TwoWritersKilledAtEveryWriteNeverBothWinAndLeaveNothingBehind(t *testing.T) {
	cluster := kube.Shared(t)
	cluster.InstallCRDs(t, crds.Files)
	c, err := client.New(cluster.Admin())
	must(t, err)
	claimChecker := watchClaims(t, c)
	const parallel = 4
	next := make(chan int)
	var all sync.WaitGroup
	for range parallel {
		all.Go(func() {
			for ordinal := range next {
				race(t, cluster.Admin(), ordinal)
			}
		})
	}
	for ordinal := range rounds {
		next <- ordinal
	}
	close(next)
	all.Wait()
	if t.Failed() {
		return
	}
	list, err := c.AddressClaims().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(list.Items) > 0 {
		t.Errorf("%d claims are left over, %s among them", len(list.Items), list.Items[0].Name)
	}
	claimChecker.settle(t)
	if seen := claimChecker.check(t); seen < rounds {
		t.Errorf("the witness saw %d claims bound in %d rounds", seen, rounds)
	}
}

func TestF7_NothingIsGrantedTwiceWhenTheStoreGoesBackInTime(t *testing.T) {
	cluster := kube.Start(t)
	cluster.InstallCRDs(t, crds.Files)
	c, err := client.New(cluster.Admin())
	must(t, err)
	w := newFakeCluster(0, pfx("10.64.0.0/20"))
	a, b := newWriter(t, cluster.Admin(), w, 1), newWriter(t, cluster.Admin(), w, 2)
	random := rand.New(rand.NewPCG(5, 6))
	for range 3 {
		a.live(t.Context(), t, random, 4)
		snapshot := cluster.Snapshot(t)
		b.live(t.Context(), t, random, 4)
		a.live(t.Context(), t, random, 4)
		cluster.Restore(t, snapshot)
		for _, one := range []*writer{a, b, a, b} {
			one.live(t.Context(), t, random, 2)
			list, err := c.AddressClaims().List(t.Context(), metav1.ListOptions{})
			must(t, err)
			bound := make(map[string]claims.Spec)
			for _, claim := range list.Items {
				if claim.Status.Bound {
					for _, conflict := range conflicts(bound, claim.Name, claim.Spec) {
						t.Error(conflict)
					}
					bound[claim.Name] = claim.Spec
				}
			}
		}
	}
	inForce := a.settle(t)
	if held := fmt.Sprint(purposes(inForce)); held != fmt.Sprint(w.purposes()) {
		t.Errorf("in force is %v, wanted %v", held, w.purposes())
	}
}

func TestClaimsThatAreThereAlreadyAreTakenOver(t *testing.T) {
	cluster := kube.Shared(t)
	cluster.InstallCRDs(t, crds.Files)
	c, err := client.New(cluster.Admin())
	must(t, err)
	w := newFakeCluster(2000, pfx("10.200.0.0/20"))
	a := newWriter(t, cluster.Admin(), w, 1)
	for prefix, owner := range map[v1alpha1.CIDR]string{"10.200.8.0/22": "w2000-b", "10.200.0.0/24": "w2000-gone", "10.200.1.0/24": "company"} {
		claim := &v1alpha1.AddressClaim{Spec: claims.Spec{Prefix: prefix, Pool: v1alpha1.PoolRemap, Owner: v1alpha1.ClaimOwner{Kind: "Peering", Name: owner}}}
		claim.Name = ipam.ClaimName(claims.Grant(claim.Spec).Prefix)
		if owner != "company" {
			claim.Spec.For = v1alpha1.CIDR(netip.PrefixFrom(lengths[0].Addr(), pfx(string(prefix)).Bits()).String())
		}
		_, err := c.AddressClaims().Create(t.Context(), claim, metav1.CreateOptions{})
		must(t, err)
	}
	w.set("w2000-b", lengths[:2]...)
	if got, want := names(a.settle(t)), []string{"10.200.2.0-23", "10.200.8.0-22"}; !slices.Equal(got, want) {
		t.Errorf("in force are %v, want %v: what was imported, and what was free beside what others hold", got, want)
	}
	w.remove("w2000-b")
	a.settle(t)
	list, err := c.AddressClaims().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(list.Items) != 1 || list.Items[0].Spec.Owner.Name != "company" {
		t.Errorf("left are %+v, want the one claim of an owner that no writer knows", list.Items)
	}
	must(t, c.AddressClaims().Delete(t.Context(), "10.200.1.0-24", metav1.DeleteOptions{}))
}

func TestAClaimThatIsStillUsedStays(t *testing.T) {
	cluster := kube.Shared(t)
	cluster.InstallCRDs(t, crds.Files)
	w := newFakeCluster(3000, pfx("10.201.0.0/20"))
	a := newWriter(t, cluster.Admin(), w, 1)
	w.set("w3000-b", lengths[0])
	want := names(a.settle(t))
	for name, answer := range map[string]error{"used": nil, "not known": errors.New("the API server is away")} {
		t.Run(name, func(t *testing.T) {
			inForce, err := claims.Ensure(t.Context(), a.client, inUseOwners{answer})
			if !errors.Is(err, answer) || len(inForce) > 0 {
				t.Errorf("got %v, %v; want none that is wanted, and the error %v", names(inForce), err, answer)
			}
		})
	}
	if got := names(a.settle(t)); !slices.Equal(got, want) {
		t.Errorf("in force are %v, want %v as before", got, want)
	}
	w.remove("w3000-b")
	a.settle(t)
}

// inUseOwners owners neither claim nor release anything.
type inUseOwners struct{ err error }

func (inUseOwners) Wanted([]claims.Spec) []claims.Spec                    { return nil }
func (s inUseOwners) Released(context.Context, claims.Spec) (bool, error) { return false, s.err }

func TestF6_AnAPIServerThatIsAwayIsAnErrorNotAnEmptyList(t *testing.T) {
	cluster := kube.Shared(t)
	cluster.InstallCRDs(t, crds.Files)
	w := newFakeCluster(4000, pfx("10.202.0.0/20"))
	a := newWriter(t, cluster.Admin(), w, 1)
	w.set("w4000-b", lengths[0])
	want := names(a.settle(t))
	a.life.dead = true
	if inForce, err := claims.Ensure(t.Context(), a.client, a); !errors.Is(err, errKilled) {
		t.Errorf("got %v, %v, want an error", names(inForce), err)
	}
	if got := names(a.settle(t)); !slices.Equal(got, want) {
		t.Errorf("in force are %v, want %v as before", got, want)
	}
	w.remove("w4000-b")
	a.settle(t)
}
