package controller

import (
	"context"
	"log/slog"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"strait.dev/strait/internal/health"
	"strait.dev/strait/k8s/client"
)

const leaseName = "strait-controller"

// The duration of a lease, the time without renewal after which its holder stops working,
// and the retry interval: the values of Kubernetes' own controllers.
var leaseFor, renewWithin, retryEvery = 15 * time.Second, 10 * time.Second, 2 * time.Second

// lead calls work while this process holds the lease, with a context that ends when the
// lease is lost, one call at a time, until ctx ends. Normally one of several processes
// works: a lease does not stop a process that was suspended and resumes late, nor one whose
// clock runs slow. Claims make that harmless. The pulse beats while the process waits; work
// must beat it itself.
func lead(ctx context.Context, o Options, pulse *health.Pulse, work func(context.Context)) {
	l := &lease{leases: o.Client.Leases(o.Namespace), identity: o.Identity}
	log := o.Log.With("lease", o.Namespace+"/"+leaseName, "identity", o.Identity)
	waiting := false
	for ctx.Err() == nil {
		pulse.Beat(time.Now())
		held, err := l.try(ctx)
		if held {
			log.Info("leading")
			l.term(ctx, log, work)
			waiting = false
		}
		switch {
		case ctx.Err() != nil:
		case err != nil:
			log.Warn("cannot get the lease; trying again", "error", err, "every", retryEvery)
		case !waiting:
			log.Info("waiting for the lease")
			waiting = true
		}
		sleep(ctx, retryEvery)
	}
}

// term calls work, and renews the lease while work runs. It releases the lease afterwards,
// so that another controller need not wait until it expires.
func (l *lease) term(ctx context.Context, log *slog.Logger, work func(context.Context)) {
	within, stop := context.WithCancel(ctx)
	var working sync.WaitGroup
	working.Go(func() { work(within) })
	l.renew(within, log)
	stop()
	working.Wait()
	if ctx.Err() != nil {
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), retryEvery)
		defer cancel()
		if err := l.release(limited); err != nil {
			log.Warn("cannot release the lease; another controller waits until it expires", "error", err, "end", leaseFor)
		}
	}
}

// renew returns when ctx ends, another process holds the lease, or it could not be renewed
// for too long.
func (l *lease) renew(ctx context.Context, log *slog.Logger) {
	for renewed := time.Now(); ; {
		sleep(ctx, retryEvery)
		if ctx.Err() != nil {
			return
		}
		limited, cancel := context.WithDeadline(ctx, renewed.Add(renewWithin))
		asked := time.Now()
		held, err := l.try(limited)
		cancel()
		switch {
		case held:
			renewed = asked
		case err == nil:
			log.Warn("another controller took the lease; stopping work")
			return
		case time.Since(renewed) >= renewWithin:
			log.Warn("the lease could not be renewed; stopping work", "error", err)
			return
		}
	}
}

// lease is this process's view of the Lease, with the rules of Kubernetes' own controllers:
// the holder renews it; another process waits until it has not changed for its duration,
// measured by its own clock; and the API server accepts one of several writers that read
// the same version. client-go has the same only together with a client for all built-in
// types; see package client. It is not safe for concurrent use.
type lease struct {
	leases   *client.Kind[*coordinationv1.Lease, *coordinationv1.LeaseList]
	identity string

	seen   coordinationv1.LeaseSpec
	seenAt time.Time // when the lease was first observed in this state
}

// try acquires or renews the lease, and reports whether it is held. It is not held if
// another process holds it, or acquired it at the same time.
func (l *lease) try(ctx context.Context) (held bool, err error) {
	is, err := l.leases.Get(ctx, leaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		is = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName}, Spec: l.next(coordinationv1.LeaseSpec{})}
		_, err = l.leases.Create(ctx, is, metav1.CreateOptions{})
		return err == nil, unlessOvertaken(err)
	}
	if err != nil {
		return false, err
	}
	if !equality.Semantic.DeepEqual(is.Spec, l.seen) {
		l.seen, l.seenAt = is.Spec, time.Now()
	}
	if holder := ptr.Deref(is.Spec.HolderIdentity, ""); holder != "" && holder != l.identity {
		duration := time.Duration(ptr.Deref(is.Spec.LeaseDurationSeconds, 0)) * time.Second
		if time.Since(l.seenAt) < max(duration, time.Second) {
			return false, nil
		}
	}
	is = is.DeepCopy()
	is.Spec = l.next(is.Spec)
	_, err = l.leases.Update(ctx, is, metav1.UpdateOptions{})
	return err == nil, unlessOvertaken(err)
}

func (l *lease) next(was coordinationv1.LeaseSpec) coordinationv1.LeaseSpec {
	now, seconds, transitions := metav1.NowMicro(), int32(leaseFor/time.Second), ptr.Deref(was.LeaseTransitions, 0)
	acquired := was.AcquireTime
	if ptr.Deref(was.HolderIdentity, "") != l.identity || acquired == nil {
		acquired = &now
		if was.AcquireTime != nil {
			transitions++
		}
	}
	return coordinationv1.LeaseSpec{HolderIdentity: &l.identity, LeaseDurationSeconds: &seconds,
		AcquireTime: acquired, RenewTime: &now, LeaseTransitions: &transitions}
}

func (l *lease) release(ctx context.Context) error {
	is, err := l.leases.Get(ctx, leaseName, metav1.GetOptions{})
	if err != nil || ptr.Deref(is.Spec.HolderIdentity, "") != l.identity {
		return err
	}
	is.Spec.HolderIdentity = new("")
	_, err = l.leases.Update(ctx, is, metav1.UpdateOptions{})
	return unlessOvertaken(err)
}

// unlessOvertaken returns the error, unless another writer was faster.
func unlessOvertaken(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
