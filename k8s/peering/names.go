package peering

import (
	"fmt"

	"strait.dev/strait/config"
	"strait.dev/strait/k8s/api/v1alpha1"
)

// Names of the objects that belong to a Peering in the namespace of the gateways.
const (
	Label     = "strait.dev/peering" // on all of it, with the name of the Peering
	InviteKey = "invite.key"         // in the Secret of an invite: the temporary private key
)

// GatewayName returns the name of a gateway and of its pod. Ordinals start at 0.
func GatewayName(p *v1alpha1.Peering, ordinal int32) string {
	return fmt.Sprintf("%s-%d", p.Name, ordinal)
}

// Place returns the ordinal of a gateway and the number of gateways of its Peering. A gateway with an ordinal beyond
// spec.gateway.replicas is temporary, or about to end. One with another name is the only one.
func Place(p *v1alpha1.Peering, gateway string) (ordinal, replicas int32) {
	for ordinal := range int32(config.MaxReplicas) {
		if GatewayName(p, ordinal) == gateway {
			return ordinal, max(p.Spec.Gateway.Replicas, ordinal+1)
		}
	}
	return 0, 1
}

// GatewayNames returns the names of all gateways of a Peering, by ordinal.
func GatewayNames(p *v1alpha1.Peering) (names []string) {
	for ordinal := range p.Spec.Gateway.Replicas {
		names = append(names, GatewayName(p, ordinal))
	}
	return names
}

// InviteSecret returns the name of the Secret of the invite for a Peering.
func InviteSecret(peering string) string { return peering + "-invite" }
