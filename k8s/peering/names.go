package peering

import (
	"fmt"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// What belongs to a Peering, in the namespace of the gateways, goes by these names.
const (
	Label     = "strait.dev/peering" // on all of it, with the name of the Peering
	InviteKey = "invite.key"         // in the Secret of an invite: the temporary private key
)

// GatewayName is that of a gateway and of its pod. Ordinals count from 0.
func GatewayName(p *v1alpha1.Peering, ordinal int32) string {
	return fmt.Sprintf("%s-%d", p.Name, ordinal)
}

// InviteSecret is the Secret of the invite that the Peering of that name came from.
func InviteSecret(peering string) string { return peering + "-invite" }
