package borrower

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// renew shows the control plane that the node is alive, and keeps its object as it has to be.
func (b *borrower) renew(ctx context.Context, lent corev1.ResourceList, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := b.lease.Held(ctx); err != nil {
		return err
	}
	p, ok := b.peerings.Get(b.Peering)
	if !ok || p.Spec.Borrow == nil {
		return nil // a cluster that borrows nothing has no node to keep
	}
	nodes := b.asNode.Nodes()
	is, err := nodes.Get(ctx, b.node.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		is, err = nodes.Create(ctx, node(b.Peering, b.node), metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("keep node %s: %w", b.node.Name, err)
	}
	want := nodeStatus(is.Status, b.node, b.port(), b.version, lent, p.Spec.Borrow.Resources, metav1.NewTime(now.Truncate(time.Second)))
	if !apiequality.Semantic.DeepEqual(is.Status, want) {
		is.Status = want
		if _, err := nodes.UpdateStatus(ctx, is, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("update the status of node %s: %w", b.node.Name, err)
		}
	}
	if err := b.renewLease(ctx, is, now); err != nil {
		return fmt.Errorf("renew the lease of node %s: %w", b.node.Name, err)
	}
	b.renewed = now
	return nil
}

func (b *borrower) renewLease(ctx context.Context, of *corev1.Node, now time.Time) error {
	leases, seconds := b.asNode.Leases(leaseSpace), int32(leaseFor/time.Second)
	spec := coordinationv1.LeaseSpec{HolderIdentity: &b.node.Name, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: now}}
	is, err := leases.Get(ctx, b.node.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: b.node.Name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: of.Name, UID: of.UID}}},
			Spec:       spec,
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	is.Spec = spec
	_, err = leases.Update(ctx, is, metav1.UpdateOptions{})
	return err
}
