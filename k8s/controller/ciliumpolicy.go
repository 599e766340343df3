package controller

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/workload"
)

// applyCiliumPolicy brings the CiliumNetworkPolicy of a peering to its desired state. It is not
// watched, because most clusters do not have this resource type, but applied in each resync.
func (c *controller) applyCiliumPolicy(ctx context.Context, peering *v1alpha1.Peering, now time.Time) error {
	policies, wanted := c.client.CiliumNetworkPolicies(c.gateways.Namespace), workload.CiliumNetworkPolicy(c.gateways, peering)
	id := objectID{peering.UID, kindName(wanted), wanted.Name}
	if now.Sub(c.noCilium) < resync || now.Sub(c.applied[id].corrected) < resync {
		return nil
	}
	var err error
	if c.gateways.NoPolicies {
		err = policies.Delete(ctx, wanted.Name, metav1.DeleteOptions{})
	} else {
		_, err = policies.Apply(ctx, wanted, Manager)
	}
	switch {
	case apierrors.IsNotFound(err): // the resource type does not exist, or there is nothing to delete
		c.noCilium = now
		return nil
	case err != nil:
		return explainAPIError(kindName(wanted), wanted.Namespace, wanted.Name, err)
	}
	c.applied[id] = applied{corrected: now}
	return nil
}
