package controller

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/controller/allocation"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/k8s/peering"
)

// Released implements claims.Owners. A claim is released when, according to the API server
// itself, its owner no longer exists, or the owner is in the state that the plan knows and
// no longer lists the claim: users must stop using it first.
func (p *plan) Released(ctx context.Context, claim claims.Spec) (bool, error) {
	switch claim.Owner.Kind {
	case allocation.KindNode:
		return p.releasedByNode(ctx, claim)
	case allocation.KindGateway:
		return p.releasedByPeering(ctx, peeringOf(claim.Owner.Name), claim)
	case allocation.KindPeering:
		return p.releasedByPeering(ctx, claim.Owner.Name, claim)
	case allocation.KindMapping:
		return p.releasedByMapping(ctx, claim)
	}
	return false, nil
}

func (p *plan) releasedByNode(ctx context.Context, claim claims.Spec) (bool, error) {
	name := claim.Owner.Name
	attachment, err := p.client.NodeAttachments().Get(ctx, name, metav1.GetOptions{})
	if err == nil && slices.Contains(cidrs.AttachedAddresses(attachment), claims.Grant(claim).Prefix.Addr()) {
		return false, nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return false, err
	}
	_, err = p.client.Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	known := slices.ContainsFunc(p.nodes, func(n *corev1.Node) bool { return n.Name == name })
	return known, err
}

func (p *plan) releasedByPeering(ctx context.Context, name string, claim claims.Spec) (bool, error) {
	is, err := p.client.Peerings().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil || slices.Contains(publishedPrefixes(is), claims.Grant(claim).Prefix) {
		return false, err
	}
	// Announcements change without a change of the spec.
	ranges := peering.RemoteOf(is, p.now).Ranges()
	return slices.ContainsFunc(p.peerings, func(k *v1alpha1.Peering) bool {
		return k.UID == is.UID && k.Generation == is.Generation && slices.Equal(p.remotes[k.Name].Ranges(), ranges)
	}), nil
}
