package operator

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Side is one of two joined clusters, with its Peering for the other one.
type Side struct {
	Cluster
	Network *v1alpha1.ClusterNetwork
	Peering *v1alpha1.Peering
}

// Pair returns both sides of a Peering of the local cluster. Without a name it uses the
// local cluster's only Peering with the remote cluster.
func Pair(ctx context.Context, local, remote Cluster, name string) (a, b *Side, err error) {
	a, b = &Side{Cluster: local}, &Side{Cluster: remote}
	var all [2][]v1alpha1.Peering
	for i, s := range []*Side{a, b} {
		if s.Network, all[i], err = s.NetworkAndPeerings(ctx); err != nil {
			return nil, nil, err
		}
	}
	if a.Network.Status.ClusterID == b.Network.Status.ClusterID {
		return nil, nil, fmt.Errorf("%s and %s are the same cluster, %s; select the context of the other cluster", a.Name, b.Name, a.Network.Status.ClusterID)
	}
	if a.Peering, err = a.with(all[0], b.Network.Status.ClusterID, name); err != nil {
		return nil, nil, err
	}
	b.Peering, err = b.with(all[1], a.Network.Status.ClusterID, "")
	return a, b, err
}

// with returns the Peering with a cluster.
func (s *Side) with(all []v1alpha1.Peering, other v1alpha1.ClusterID, name string) (*v1alpha1.Peering, error) {
	var others []string
	for i := range all {
		p := &all[i]
		if remoteID(p) == other && (name == "" || name == p.Name) {
			return p, nil
		}
		others = append(others, fmt.Sprintf("%s with %s", p.Name, remoteOf(p)))
	}
	what := "no Peering with cluster " + string(other)
	if name != "" {
		what = fmt.Sprintf("no Peering %s with cluster %s", name, other)
	}
	if len(others) == 0 {
		return nil, fmt.Errorf("%s: there is %s; join the clusters with strait peer", s.Name, what)
	}
	return nil, fmt.Errorf("%s: there is %s, only %s; check the name and the contexts", s.Name, what, strings.Join(others, ", "))
}

// Seen returns the address in this cluster of a pod of the remote cluster.
func (s *Side) Seen(there netip.Addr) (netip.Addr, error) {
	here, err := seenHere(s.Peering, there)
	if err != nil {
		return here, fmt.Errorf("%s: %w", s.Name, err)
	}
	return here, nil
}

// Gateway returns the name of the node that the Peering's first gateway runs on, empty
// while it is not known.
func (s *Side) Gateway() string {
	for _, g := range s.Peering.Status.Gateways {
		if g.Node != "" {
			return g.Node
		}
	}
	return ""
}
