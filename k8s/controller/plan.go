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
	"strait.dev/strait/k8s/peering"
)

// The kinds of owners that the controller claims for. Claims of others are theirs.
const (
	kindNode    = "NodeAttachment"
	kindGateway = "Gateway"
	kindPeering = "Peering"
	kindMapping = "AddressMapping"
)

// plan says which claims there should be for what the caches hold. It is the
// claims.Owners of one pass.
type plan struct {
	client   *client.Client // for what only the API server itself knows
	network  *network
	nodes    []*corev1.Node
	peerings []*v1alpha1.Peering        // oldest first: a later one changes nothing for an earlier one
	mappings []*v1alpha1.AddressMapping // the same
	remotes  map[string]peering.Remote  // by the names of peerings
	now      time.Time

	// Of the latest call of Wanted.
	views    map[string][]outcome        // by the names of peerings
	unmapped map[string]metav1.Condition // why mappings cannot have their addresses, by their names
	problems []error                     // of addresses
}

func newPlan(c *client.Client, n *network, nodes []*corev1.Node, peerings []*v1alpha1.Peering, mappings []*v1alpha1.AddressMapping, now time.Time) *plan {
	peerings = client.OldestFirst(peerings)
	p := &plan{client: c, network: n, nodes: nodes, peerings: peerings, mappings: client.OldestFirst(mappings), remotes: make(map[string]peering.Remote), now: now}
	for _, one := range peerings {
		p.remotes[one.Name] = peering.RemoteOf(one, now)
	}
	return p
}

// Wanted is claims.Owners'. While the cluster is not known or its pools cannot be used,
// owners keep what they have, and nobody gets anything.
func (p *plan) Wanted(held []claims.Spec) []claims.Spec {
	p.views, p.unmapped, p.problems = make(map[string][]outcome), make(map[string]metav1.Condition), nil
	if p.network.problem != "" {
		return p.kept(held)
	}
	addresses, err := newAddresses(p.network, held)
	if err != nil {
		p.problems = append(p.problems, err)
		return p.kept(held)
	}
	views, err := newViews(p.network, held)
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
	for _, mapping := range p.mappings { // before others choose
		wanted = append(wanted, p.mappedTo(mapping, addresses, slices.Concat(held, wanted))...)
	}
	for _, node := range p.nodes {
		wanted = append(wanted, p.addressesOf(addresses.nodes, v1alpha1.ClaimOwner{Kind: kindNode, Name: node.Name})...)
	}
	for _, peering := range p.peerings {
		for _, name := range gatewayNames(peering) {
			wanted = append(wanted, p.addressesOf(addresses.gateways, v1alpha1.ClaimOwner{Kind: kindGateway, Name: name})...)
		}
	}
	for _, peering := range p.peerings {
		p.views[peering.Name] = views.of(peering.Name, p.remotes[peering.Name].Ranges())
		for _, one := range p.views[peering.Name] {
			if one.claim != (claims.Spec{}) {
				wanted = append(wanted, one.claim)
			}
		}
	}
	return wanted
}

// kept are the held claims of owners that there are, and of those that are not ours.
func (p *plan) kept(held []claims.Spec) (kept []claims.Spec) {
	there := make(map[v1alpha1.ClaimOwner]bool)
	for _, node := range p.nodes {
		there[v1alpha1.ClaimOwner{Kind: kindNode, Name: node.Name}] = true
	}
	for _, peering := range p.peerings {
		there[v1alpha1.ClaimOwner{Kind: kindPeering, Name: peering.Name}] = true
		for _, name := range gatewayNames(peering) {
			there[v1alpha1.ClaimOwner{Kind: kindGateway, Name: name}] = true
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

// ownedKind reports whether the controller claims for an owner.
func ownedKind(o v1alpha1.ClaimOwner) bool {
	return o.Kind == kindNode || o.Kind == kindGateway || o.Kind == kindPeering || o.Kind == kindMapping
}

// addressesOf are the claims for the addresses of a node or gateway. That there is none
// for one of them is noted.
func (p *plan) addressesOf(from []*addressPool, owner v1alpha1.ClaimOwner) (wanted []claims.Spec) {
	for _, pool := range from {
		spec, err := pool.claim(owner)
		if err != nil {
			p.problems = append(p.problems, fmt.Errorf("%s: %w", claims.Use(pool.of, owner), err))
			continue
		}
		wanted = append(wanted, spec)
	}
	return wanted
}

// gatewayNames are the names of the gateways of a peering.
func gatewayNames(p *v1alpha1.Peering) (names []string) {
	for ordinal := range p.Spec.Gateway.Replicas {
		names = append(names, peering.GatewayName(p, ordinal))
	}
	return names
}

// peeringOf is the name of the peering that a gateway belongs to.
func peeringOf(gateway string) string {
	return gateway[:max(strings.LastIndexByte(gateway, '-'), 0)]
}
