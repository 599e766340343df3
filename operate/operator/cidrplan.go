package operator

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/controller/allocation"
	"strait.dev/strait/k8s/peering"
)

// Plan is the proposed mapping of a remote cluster's CIDRs.
type Plan struct {
	ClusterID v1alpha1.ClusterID `json:"clusterID"` // of the cluster that they are mapped in
	Remote    v1alpha1.ClusterID `json:"remote,omitempty"`
	Peering   string             `json:"peering,omitempty"` // the existing one with the remote cluster
	Views     []allocation.View  `json:"views"`
}

// planned is the placeholder name of a Peering that does not exist; it is not a valid name.
const planned = "(planned)"

// PlanOf returns the mapping of CIDRs in a cluster: of those given, and of those of the
// remote cluster, if set. A Peering that does not exist yet is assumed to list none of them,
// or all if they are to keep their addresses, as one of Join or Accept does.
func PlanOf(ctx context.Context, c Cluster, remote *Cluster, given []netip.Prefix, keep bool) (*Plan, error) {
	network, err := c.Network(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.usable(network); err != nil {
		return nil, err
	}
	plan := &Plan{ClusterID: network.Status.ClusterID}
	var wanted []v1alpha1.CIDR
	for _, p := range given {
		wanted = append(wanted, v1alpha1.CIDR(p.Masked().String()))
	}
	if remote != nil {
		other, err := remote.Network(ctx)
		if err != nil {
			return nil, err
		}
		if other.UID == network.UID {
			return nil, fmt.Errorf("%s and %s are the same cluster; select the contexts of two clusters", c.Name, remote.Name)
		}
		plan.Remote = other.Status.ClusterID
		wanted = append(wanted, ranges(other)...)
	}
	existing, err := c.existingPeering(ctx, plan.Remote)
	if err != nil {
		return nil, err
	}
	listed := func(v1alpha1.CIDR) bool { return keep }
	if existing != nil {
		plan.Peering = existing.Name
		listed = func(cidr v1alpha1.CIDR) bool { return peering.Listed(existing, cidr) }
	}
	held, err := List(ctx, c, "AddressClaims", c.Client.AddressClaims(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	plan.Views, err = allocation.Preview(network, c.apiServers(ctx), held.Items, cmp.Or(plan.Peering, planned), withSeenAs(wanted, existing), listed)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot compute mappings: %w", c.Name, err)
	}
	return plan, c.addRefusals(ctx, plan.Views)
}

// addRefusals adds the nodes that refuse to route a mapping. Only mappings that were in
// force are known to them.
func (c Cluster) addRefusals(ctx context.Context, views []allocation.View) error {
	attachments, err := c.NodeAttachments(ctx)
	if err != nil {
		return err
	}
	for i := range views {
		for _, a := range attachments {
			for _, conflict := range a.Status.RouteConflicts {
				if conflict.Refused && conflict.CIDR == views[i].SeenAs {
					views[i].Refused = append(views[i].Refused, fmt.Sprintf("%s has %s", a.Name, conflict.Destination))
				}
			}
		}
	}
	return nil
}

// existingPeering returns the Peering with a cluster, nil if there is none.
func (c Cluster) existingPeering(ctx context.Context, with v1alpha1.ClusterID) (*v1alpha1.Peering, error) {
	if with == "" {
		return nil, nil
	}
	all, err := c.Peerings(ctx)
	return withCluster(all, with), err
}

// withSeenAs returns CIDRs with the seenAs of a Peering, which may be nil.
func withSeenAs(wanted []v1alpha1.CIDR, p *v1alpha1.Peering) (prefixes v1alpha1.RemotePrefixes) {
	var said v1alpha1.RemotePrefixes
	if p != nil {
		said = slices.Concat(p.Spec.Prefixes, p.Spec.ExternalPrefixes)
	}
	for _, cidr := range wanted {
		one := v1alpha1.RemotePrefix{CIDR: cidr}
		if i := slices.IndexFunc(said, func(s v1alpha1.RemotePrefix) bool { return s.CIDR == cidr }); i >= 0 {
			one = said[i]
		}
		if !slices.Contains(prefixes, one) {
			prefixes = append(prefixes, one)
		}
	}
	return prefixes
}

// apiServers returns the addresses of the API server, which the controller reserves.
// Without permission to read them the plan omits them; they are nearly always among the
// nodes' addresses.
func (c Cluster) apiServers(ctx context.Context) (addresses []netip.Addr) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	slices, err := c.Client.EndpointSlices(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=kubernetes"})
	if err != nil {
		return nil
	}
	for _, slice := range slices.Items {
		for _, endpoint := range slice.Endpoints {
			for _, text := range endpoint.Addresses {
				if a, err := netip.ParseAddr(text); err == nil && !a.IsLoopback() && !a.IsLinkLocalUnicast() && a.Zone() == "" {
					addresses = append(addresses, a)
				}
			}
		}
	}
	return addresses
}
