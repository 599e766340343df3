package verify

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/cidrs"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/operate/agents"
	"strait.dev/strait/operate/operator"
)

// clusterState is the state of a cluster's objects that decides where agents run and which
// addresses they may see.
type clusterState struct {
	*operator.Side
	id             string
	attachments    []v1alpha1.NodeAttachment
	reports        []v1alpha1.GatewayReport // of the Peering's gateways
	gateway, other string                   // nodes; empty: none
}

func readCluster(ctx context.Context, s *operator.Side) (*clusterState, error) {
	g := &clusterState{Side: s, id: string(s.Network.Status.ClusterID), gateway: s.Gateway()}
	var err error
	if g.attachments, err = s.NodeAttachments(ctx); err != nil {
		return nil, err
	}
	reports, err := s.Reports(ctx)
	if err != nil {
		return nil, err
	}
	g.reports = peering.Reports(s.Peering, reports)
	nodes, err := operator.List(ctx, s.Cluster, "Nodes", s.Client.Nodes(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	g.other = otherNode(agents.Joined(nodes.Items, g.attachments, s.Network.Status.WithoutNodes), s.Peering)
	return g, nil
}

// shape returns where the agents of a cluster run.
func (g *clusterState) shape() ClusterShape { return ClusterShape{g.id, g.Name, g.gateway, g.other} }

// otherNode returns the first of some nodes that has no gateway of the peering, "" if each has
// one.
func otherNode(nodes []string, p *v1alpha1.Peering) string {
	i := slices.IndexFunc(nodes, func(name string) bool {
		return !slices.ContainsFunc(p.Status.Gateways, func(g v1alpha1.GatewayStatus) bool { return g.Node == name })
	})
	if i < 0 {
		return ""
	}
	return nodes[i]
}

// node returns the node of a location, or the reason why there is none.
func (g *clusterState) node(other bool) (name, why string) {
	switch {
	case other && g.other == "":
		return "", fmt.Sprintf("cluster %s has no ready node without a gateway of the peering", g.id)
	case !other && g.gateway == "":
		return "", fmt.Sprintf("the node of the gateway in cluster %s is not known", g.id)
	case other:
		return g.other, ""
	}
	return g.gateway, ""
}

func (g *clusterState) external(node string) (all []netip.Addr) {
	for _, a := range g.attachments {
		if a.Name == node {
			all = append(all, cidrs.Addrs(a.Spec.ExternalAddresses)...)
		}
	}
	return all
}

// seenBy sets the mapped addresses of a location in the other cluster, from its addresses
// in this one.
func (s *location) seenBy(other *clusterState, id string, here []netip.Addr) {
	s.seen, s.unseen = map[family]netip.Addr{}, map[family]string{}
	for _, f := range families {
		s.unseen[f] = fmt.Sprintf("pods of %s have no %s address", id, f)
		if s.host {
			s.unseen[f] = fmt.Sprintf("nodes of %s have no external %s address; see externalCIDRs of its ClusterNetwork", id, f)
		}
	}
	for _, a := range here {
		seen, err := other.Seen(a)
		if err != nil {
			s.unseen[familyOf(a)] = err.Error()
			continue
		}
		s.seen[familyOf(a)] = seen
	}
}
