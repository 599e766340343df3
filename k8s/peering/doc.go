// Package peering says what a Peering comes to: what it grants, whom it trusts, and what
// the remote cluster may announce through the tunnel. It is pure.
//
// A Peering is written by an admin, once, and what the remote cluster announces later
// takes the place of what was written, within the grants of what was written:
//
//	spec.prefixes, spec.peers ──► in force until the first announcement
//	announcement ──► Refusal ──► in force, all of it, or refused, all of it
//
// An announcement comes through a tunnel to a gateway that is trusted already, and so may
// name other gateways and newer keys. What it does not name is trusted no more: the old
// key of a gateway, or the temporary one of an invite. What is written to the spec after
// that is trusted again, beside it.
package peering
