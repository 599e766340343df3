package lease_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/offload/lease"
	"strait.dev/strait/test/fakekube"
)

func TestALaterRunTakesTheLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		leases := fakekube.New().Client(t).Leases("default")
		ctx := t.Context()
		first := &lease.Lease{Leases: leases, Name: "agent", Holder: "first"}
		second := &lease.Lease{Leases: leases, Name: "agent", Holder: "second"}
		for want, l := range []*lease.Lease{first, second} {
			if term, err := l.Take(ctx, true); err != nil || int(term) != want+1 {
				t.Errorf("run %s gets term %d, %v", l.Holder, term, err)
			}
		}
		if err := first.Held(ctx); !errors.Is(err, lease.ErrLost) {
			t.Errorf("the first run still holds it: %v", err)
		}
		if err := first.Raise(ctx, 9); !errors.Is(err, lease.ErrLost) {
			t.Errorf("the first run changes the term: %v", err)
		}
		for _, raise := range []int32{7, 5} { // never back
			if err := second.Raise(ctx, raise); err != nil {
				t.Error(err)
			}
		}
		if term, err := first.Take(ctx, false); err != nil || term != 7 {
			t.Errorf("after terms up to 7 it is %d, %v", term, err)
		}
	})
}

// The other cluster has stored the highest term: a borrower that begins again with a low one would
// be fenced for ever.
func TestATermRisesAlsoWhenTheLeaseIsAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		leases := fakekube.New().Client(t).Leases("default")
		ctx := t.Context()
		run := &lease.Lease{Leases: leases, Name: "agent", Holder: "run"}
		last := int32(0)
		take := func(what string) {
			t.Helper()
			term, err := run.Take(ctx, true)
			if err != nil || term <= last {
				t.Errorf("%s: term %d follows %d, %v", what, term, last, err)
			}
			last = term
			time.Sleep(10 * time.Second)
		}
		take("the first run")
		take("a restart")
		old, err := leases.Get(ctx, "agent", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		take("another restart")
		if err := leases.Delete(ctx, "agent", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := run.Held(ctx); !errors.Is(err, lease.ErrLost) {
			t.Errorf("a run goes on without its Lease: %v", err)
		}
		take("the Lease was deleted")
		is, err := leases.Get(ctx, "agent", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		is.Spec = old.Spec
		if _, err := leases.Update(ctx, is, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		take("the Lease was restored from a backup")
	})
}
