//go:build apiserver || nightly

package claims_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"strait.dev/strait/ipam"
	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/client"
)

// fakeCluster is what owners of one pool want. Other worlds share the store.
type fakeCluster struct {
	pool    netip.Prefix
	mu      sync.Mutex
	owners  map[string][]netip.Prefix // what each owner that exists wants, or one address if nothing
	ordinal int
}

func (w *fakeCluster) exists(owner string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.owners[owner]
	return ok
}

func (w *fakeCluster) set(owner string, wants ...netip.Prefix) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owners[owner] = wants
}

func (w *fakeCluster) remove(owner string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.owners, owner)
}

// writer is a controller of a world. It knows owners as they were when it last looked.
type writer struct {
	*fakeCluster
	client *client.Client
	life   *crashingTransport
	known  map[string][]netip.Prefix
}

func newWriter(t *testing.T, config *rest.Config, w *fakeCluster, seed uint64) *writer {
	t.Helper()
	life := &crashingTransport{random: rand.New(rand.NewPCG(seed, 1))}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		life.RoundTripper = next
		return life
	})
	c, err := client.New(config)
	must(t, err)
	return &writer{fakeCluster: w, client: c, life: life}
}

// reload makes a writer know all owners as they are now.
func (w *writer) reload() { w.reloadPartly(nil) }

// reloadPartly makes a writer know some of the owners, as if its caches were late.
func (w *writer) reloadPartly(random *rand.Rand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = make(map[string][]netip.Prefix)
	for _, name := range slices.Sorted(maps.Keys(w.owners)) {
		if random == nil || random.IntN(3) > 0 {
			w.known[name] = w.owners[name]
		}
	}
}

func (w *writer) Wanted(held []claims.Spec) (wanted []claims.Spec) {
	space, err := ipam.NewSpace([]netip.Prefix{w.pool}, nil)
	for _, spec := range held {
		err = errors.Join(err, space.Take(claims.Grant(spec)))
	}
	if err != nil {
		panic(err)
	}
	for _, name := range slices.Sorted(maps.Keys(w.known)) {
		owner := v1alpha1.ClaimOwner{Kind: "Peering", Name: name}
		for _, cidr := range w.known[name] {
			p, err := space.Prefix(claims.Use(v1alpha1.PoolRemap, owner), cidr)
			if err != nil {
				continue // the pool is full
			}
			wanted = append(wanted, claims.Spec{Prefix: v1alpha1.CIDR(p.String()), Pool: v1alpha1.PoolRemap, Owner: owner, For: v1alpha1.CIDR(cidr.String())})
			if err := space.Take(claims.Grant(wanted[len(wanted)-1])); err != nil {
				panic(err)
			}
		}
		if len(w.known[name]) == 0 {
			a, err := space.Address(claims.Use(v1alpha1.PoolInternal, owner), w.pool)
			if err != nil {
				continue
			}
			p := netip.PrefixFrom(a, a.BitLen())
			wanted = append(wanted, claims.Spec{Prefix: v1alpha1.CIDR(p.String()), Pool: v1alpha1.PoolInternal, Owner: owner})
			if err := space.Take(claims.Grant(wanted[len(wanted)-1])); err != nil {
				panic(err)
			}
		}
	}
	return wanted
}

func (w *writer) Released(_ context.Context, claim claims.Spec) (bool, error) {
	return w.mine(claim) && !w.exists(claim.Owner.Name), nil
}

// mine reports whether a claim is of this world.
func (w *fakeCluster) mine(claim claims.Spec) bool {
	return strings.HasPrefix(claim.Owner.Name, w.prefix())
}

func (w *fakeCluster) prefix() string { return fmt.Sprintf("w%d-", w.ordinal) }

func newFakeCluster(ordinal int, pool netip.Prefix) *fakeCluster {
	return &fakeCluster{ordinal: ordinal, pool: pool, owners: make(map[string][]netip.Prefix)}
}
