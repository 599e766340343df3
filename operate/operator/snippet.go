package operator

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// ForRemote returns the Peering that the remote cluster needs for one of this cluster's. It
// contains public data only. The remote cluster decides what it grants.
func ForRemote(ctx context.Context, c Cluster, name string, w Waiting) (*v1alpha1.Peering, error) {
	n, all, err := c.NetworkAndPeerings(ctx)
	if err != nil {
		return nil, err
	}
	if name == "" && len(all) == 1 {
		name = all[0].Name
	}
	p := named(all, name)
	switch {
	case name == "":
		return nil, fmt.Errorf("%s: there is not exactly one Peering; specify a name (existing Peerings: %s)", c.Name, peeringNames(all))
	case p == nil:
		return nil, fmt.Errorf("%s: %w", c.Name, noPeering(name, all))
	}
	gateways, err := c.untilRunning(ctx, p, w, "print a Peering for the other cluster")
	if err != nil {
		return nil, err
	}
	return forRemote(n, p, gateways), nil
}

func forRemote(n *v1alpha1.ClusterNetwork, p *v1alpha1.Peering, gateways []v1alpha1.GatewayStatus) *v1alpha1.Peering {
	pods := peering.LocalPrefixes(p, n)
	return &v1alpha1.Peering{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Peering"},
		ObjectMeta: metav1.ObjectMeta{Name: nameFor(n.Status.ClusterID)},
		Spec: v1alpha1.PeeringSpec{
			ClusterID: n.Status.ClusterID, LocalPods: true,
			Prefixes: remotePrefixes(pods), ExternalPrefixes: remotePrefixes(n.Spec.ExternalCIDRs),
			AcceptPrefixes: accepted(append(append([]v1alpha1.CIDR{}, pods...), n.Spec.ExternalCIDRs...)...),
			Peers:          asPeers(gateways, nil),
		},
	}
}
