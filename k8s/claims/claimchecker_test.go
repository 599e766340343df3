//go:build apiserver || nightly

package claims_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/test/wait"
)

// claimChecker sees every change of every claim, in the order in which the store made them.
type claimChecker struct {
	mu         sync.Mutex
	bound      map[string]claims.Spec // by the names of the claims
	seen       int                    // how often one became bound
	violations []string
}

// watchClaims starts a witness, who ends with the test.
func watchClaims(t *testing.T, c *client.Client) *claimChecker {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	list, err := c.AddressClaims().List(ctx, metav1.ListOptions{})
	must(t, err)
	w := &claimChecker{bound: make(map[string]claims.Spec)}
	for _, claim := range list.Items {
		w.observe(watch.Event{Type: watch.Added, Object: &claim})
	}
	events, err := c.AddressClaims().Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	must(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for event := range events.ResultChan() {
			if ctx.Err() == nil {
				w.observe(event)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		events.Stop()
		<-done
		w.check(t)
	})
	return w
}

// settle waits until the witness has seen that no claim is bound any more.
func (w *claimChecker) settle(t *testing.T) {
	t.Helper()
	bound := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.bound)
	}
	wait.Until(t, "no claim is bound any more", func() bool { return bound() == 0 })
}

func (w *claimChecker) observe(event watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	claim, ok := event.Object.(*v1alpha1.AddressClaim)
	switch {
	case !ok:
		w.violations = append(w.violations, fmt.Sprintf("the watch ended: %+v", event.Object))
	case event.Type == watch.Deleted || !claim.Status.Bound:
		delete(w.bound, claim.Name)
	default:
		w.violations = append(w.violations, conflicts(w.bound, claim.Name, claim.Spec)...)
		w.bound[claim.Name] = claim.Spec
		w.seen++
	}
}

// check reports what was seen that must not be, and returns how often a claim became
// bound.
func (w *claimChecker) check(t *testing.T) int {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, violation := range w.violations {
		t.Error(violation)
	}
	w.violations = nil
	return w.seen
}

// conflicts are those of one claim with others that are bound: the slow, obvious twin of
// what package ipam takes for one.
func conflicts(bound map[string]claims.Spec, name string, spec claims.Spec) (found []string) {
	for other, held := range bound {
		if other == name {
			continue
		}
		p, q := netip.MustParsePrefix(string(spec.Prefix)), netip.MustParsePrefix(string(held.Prefix))
		purpose := spec.Owner == held.Owner && spec.Pool == held.Pool && spec.For == held.For && p.Addr().Is4() == q.Addr().Is4()
		if p.Overlaps(q) || purpose {
			found = append(found, fmt.Sprintf("both in force: %+v and %+v", spec, held))
		}
	}
	return found
}
