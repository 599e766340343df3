package controller

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"strait.dev/strait/k8s/client"
)

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

// next returns the lease as it is after it is acquired or renewed.
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

// release clears the holder of the lease if this process holds it.
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
