package lease_test

import (
	"errors"
	"testing"

	"strait.dev/strait/offload/lease"
	"strait.dev/strait/test/fakekube"
)

func TestALaterRunTakesTheLease(t *testing.T) {
	t.Parallel()
	leases := fakekube.New().Client(t).Leases("default")
	ctx := t.Context()
	first := &lease.Lease{Leases: leases, Name: "agent", Holder: "first"}
	second := &lease.Lease{Leases: leases, Name: "agent", Holder: "second"}
	for want, l := range []*lease.Lease{first, second} {
		if term, err := l.Take(ctx, 1); err != nil || int(term) != want+1 {
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
	if term, err := first.Take(ctx, 0); err != nil || term != 7 {
		t.Errorf("after terms up to 7 it is %d, %v", term, err)
	}
}
