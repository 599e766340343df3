package controller

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/claims"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/controller/allocation"
	"strait.dev/strait/k8s/controller/network"
	"strait.dev/strait/k8s/controller/nodeinfo"
	"strait.dev/strait/k8s/controller/workload"
	"strait.dev/strait/k8s/peering"
)

// plan computes the desired claims for the cached objects. It is the claims.Owners of one
// pass.
type plan struct {
	client  *client.Client // for reads that must not come from a cache
	network *network.Network
	nodes   []*corev1.Node

	attachable []*corev1.Node // those that have a NodeAttachment and addresses: on which node helpers run
	helpers    *nodeinfo.Helpers

	balancer workload.Provider          // of the cluster's load balancers
	peerings []*v1alpha1.Peering        // oldest first: a later one does not affect an earlier one; with what their gateways report
	mappings []*v1alpha1.AddressMapping // the same
	remotes  map[string]peering.Remote  // by the names of peerings
	holders  peering.Holders            // of cluster IDs
	now      time.Time

	// Results of the latest call of Wanted.
	views    map[string][]allocation.Outcome // by the names of peerings
	unmapped map[string]metav1.Condition     // why mappings cannot have their addresses, by their names
	problems []error                         // of the pools

	// Why owners have no address, as a pool is exhausted: of nodes; of gateways, by the names of peerings.
	unaddressed         []string
	unaddressedGateways map[string][]string
}

func newPlan(c *client.Client, n *network.Network, nodes []*corev1.Node, peerings []*v1alpha1.Peering, mappings []*v1alpha1.AddressMapping, now time.Time) *plan {
	peerings = client.OldestFirst(peerings)
	p := &plan{client: c, network: n, nodes: nodes, attachable: nodes, balancer: workload.ProviderOf(nodes), peerings: peerings, mappings: client.OldestFirst(mappings), now: now}
	p.remotes, p.holders = make(map[string]peering.Remote), peering.HoldersOf(n.ClusterID, peerings)
	for _, one := range peerings {
		p.remotes[one.Name] = peering.RemoteOf(one, now)
	}
	return p
}

// Wanted implements claims.Owners. While the cluster's CIDRs are not known or its pools are
// not usable, owners keep what they have, and nothing new is allocated.
func (p *plan) Wanted(held []claims.Spec) []claims.Spec {
	p.views, p.unmapped, p.problems = make(map[string][]allocation.Outcome), make(map[string]metav1.Condition), nil
	p.unaddressed, p.unaddressedGateways = nil, make(map[string][]string)
	if p.network.Problem != "" {
		return p.kept(held)
	}
	addresses, err := allocation.NewAddresses(p.network, held)
	if err != nil {
		p.problems = append(p.problems, err)
		return p.kept(held)
	}
	views, err := allocation.NewViews(p.network, held)
	if err != nil {
		p.problems = append(p.problems, err)
		return p.kept(held)
	}
	var wanted []claims.Spec
	for _, spec := range held {
		if !ownedKind(spec.Owner) {
			wanted = append(wanted, spec)
		}
	}
	for _, mapping := range p.mappings { // before addresses are allocated
		wanted = append(wanted, p.mappedTo(mapping, addresses, slices.Concat(held, wanted))...)
	}
	for _, node := range p.attachable {
		some, failed := addressesOf(addresses.Nodes, v1alpha1.ClaimOwner{Kind: allocation.KindNode, Name: node.Name})
		wanted, p.unaddressed = append(wanted, some...), append(p.unaddressed, failed...)
	}
	for _, peering := range p.peerings {
		for _, name := range known(peering) {
			some, failed := addressesOf(addresses.Gateways, v1alpha1.ClaimOwner{Kind: allocation.KindGateway, Name: name})
			wanted, p.unaddressedGateways[peering.Name] = append(wanted, some...), append(p.unaddressedGateways[peering.Name], failed...)
		}
	}
	for _, of := range p.peerings {
		listed := func(cidr v1alpha1.CIDR) bool { return peering.Listed(of, cidr) }
		p.views[of.Name] = views.Of(of.Name, p.remotes[of.Name].Ranges(), listed)
		for _, one := range p.views[of.Name] {
			if one.Claim != (claims.Spec{}) {
				wanted = append(wanted, one.Claim)
			}
		}
	}
	return wanted
}

// kept returns the held claims of existing owners, and those of other kinds of owners.
func (p *plan) kept(held []claims.Spec) (kept []claims.Spec) {
	there := make(map[v1alpha1.ClaimOwner]bool)
	for _, node := range p.nodes {
		there[v1alpha1.ClaimOwner{Kind: allocation.KindNode, Name: node.Name}] = true
	}
	for _, peering := range p.peerings {
		there[v1alpha1.ClaimOwner{Kind: allocation.KindPeering, Name: peering.Name}] = true
		for _, name := range known(peering) {
			there[v1alpha1.ClaimOwner{Kind: allocation.KindGateway, Name: name}] = true
		}
	}
	for _, mapping := range p.mappings {
		there[mappingOwner(mapping.Name)] = true
	}
	for _, spec := range held {
		if there[spec.Owner] || !ownedKind(spec.Owner) {
			kept = append(kept, spec)
		}
	}
	return kept
}

func ownedKind(o v1alpha1.ClaimOwner) bool {
	return o.Kind == allocation.KindNode || o.Kind == allocation.KindGateway || o.Kind == allocation.KindPeering || o.Kind == allocation.KindMapping
}

// addressesOf returns the claims for the addresses of a node or gateway, and why it has no
// address of a pool.
func addressesOf(from []*allocation.AddressPool, owner v1alpha1.ClaimOwner) (wanted []claims.Spec, failed []string) {
	for _, pool := range from {
		spec, err := pool.Claim(owner)
		if err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", claims.Use(pool.Of, owner), err))
			continue
		}
		wanted = append(wanted, spec)
	}
	return wanted, failed
}

func gatewayNames(p *v1alpha1.Peering) []string { return peering.GatewayNames(p) }

func peeringOf(gateway string) string {
	return gateway[:max(strings.LastIndexByte(gateway, '-'), 0)]
}
