package controller

import (
	"context"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/cilium"
	"strait.dev/strait/k8s/api/v1alpha1"
)

// ciliumNetworkPolicy allows nodes to send overlay packets to the gateways of a peering and
// to read their metrics: Cilium's address blocks match no nodes unless it is configured to.
// Policies add up, so it needs no other rule of networkPolicy.
func ciliumNetworkPolicy(g Gateways, peering *v1alpha1.Peering) *cilium.CiliumNetworkPolicy {
	ports := []cilium.Port{{Port: strconv.Itoa(httpPort), Protocol: "TCP"}}
	if !g.WithoutNodes {
		ports = append(ports, cilium.Port{Port: strconv.Itoa(genevePort), Protocol: "UDP"}, cilium.Port{Port: strconv.Itoa(vxlanPort), Protocol: "UDP"})
	}
	return &cilium.CiliumNetworkPolicy{
		ObjectMeta: objectMeta(g, peering, peering.Name),
		Spec: cilium.Spec{
			EndpointSelector: metav1.LabelSelector{MatchLabels: selector(peering)},
			Ingress: []cilium.Ingress{{
				FromEntities: []string{cilium.Host, cilium.RemoteNode},
				ToPorts:      []cilium.Ports{{Ports: ports}},
			}},
		},
	}
}

// applyCiliumPolicy brings the CiliumNetworkPolicy of a peering to its desired state. It is not
// watched, because most clusters do not have this resource type, but applied in each resync.
func (c *controller) applyCiliumPolicy(ctx context.Context, peering *v1alpha1.Peering, now time.Time) error {
	policies, wanted := c.client.CiliumNetworkPolicies(c.gateways.Namespace), ciliumNetworkPolicy(c.gateways, peering)
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
