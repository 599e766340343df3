// Package lease fences the runs of an agent with a Lease in its namespace. The newest run holds
// it; an older one that still runs notices and ends. It does not elect: each agent has one
// replica, and its Deployment starts another only after the first one.
//
// The transitions of a borrower's Lease are its term; those of a lender's are the highest term
// of a borrower that it has accepted. A term is at least the number of seconds since 2000, so it
// rises even if the Lease was deleted, or restored from a backup.
package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"strait.dev/strait/k8s/client"
)

// Lease is a Lease that a run of an agent takes. It is safe for concurrent use.
type Lease struct {
	Leases *client.Kind[*coordinationv1.Lease, *coordinationv1.LeaseList]
	Name   string
	Holder string // unique among all runs
}

// ErrLost is the error of a run that does not hold its Lease any more.
var ErrLost = errors.New("a later run has taken the Lease, or it was deleted")

// epoch is the time of term 0.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Take takes the Lease from any former run, and returns its term, which rises if asked for.
func (l *Lease) Take(ctx context.Context, rises bool) (term int32, err error) {
	is, err := l.Leases.Get(ctx, l.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, l.failed("read", err)
	}
	missing := err != nil
	if !missing {
		term = ptr.Deref(is.Spec.LeaseTransitions, 0)
	}
	if rises {
		term = max(term+1, int32(time.Since(epoch)/time.Second)) //nolint:gosec // it fits until 2068
	}
	if missing {
		is = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: l.Name}, Spec: l.spec(term)}
		_, err = l.Leases.Create(ctx, is, metav1.CreateOptions{})
		return term, l.failed("create", err)
	}
	return term, l.update(ctx, is, term)
}

// Raise stores a higher term while this run holds the Lease.
func (l *Lease) Raise(ctx context.Context, term int32) error {
	is, err := l.held(ctx)
	if err != nil {
		return err
	}
	return l.update(ctx, is, max(term, ptr.Deref(is.Spec.LeaseTransitions, 0)))
}

// Held returns ErrLost if this run does not hold the Lease any more. It reads the API server itself, so
// success also shows that it answers.
func (l *Lease) Held(ctx context.Context) error {
	_, err := l.held(ctx)
	return err
}

func (l *Lease) held(ctx context.Context) (*coordinationv1.Lease, error) {
	is, err := l.Leases.Get(ctx, l.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, ErrLost // the next run makes one
	}
	if err != nil {
		return nil, l.failed("read", err)
	}
	if ptr.Deref(is.Spec.HolderIdentity, "") != l.Holder {
		return nil, ErrLost
	}
	return is, nil
}

func (l *Lease) update(ctx context.Context, is *coordinationv1.Lease, term int32) error {
	is.Spec = l.spec(term)
	_, err := l.Leases.Update(ctx, is, metav1.UpdateOptions{})
	return l.failed("update", err)
}

func (l *Lease) failed(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s Lease %s: %w", what, l.Name, err)
	}
	return nil
}

func (l *Lease) spec(term int32) coordinationv1.LeaseSpec {
	now := metav1.NowMicro()
	return coordinationv1.LeaseSpec{HolderIdentity: &l.Holder, AcquireTime: &now, LeaseTransitions: &term}
}
