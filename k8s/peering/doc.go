// Package peering interprets a Peering: what it grants, which gateways it trusts, and what
// the remote cluster may announce through the tunnel. It has no side effects.
//
// An admin writes a Peering once; later announcements of the remote cluster replace what
// the spec contains, within the grants of the spec:
//
//	spec.prefixes, spec.peers ──► in effect until the first announcement
//	announcement ──► Refusal ──► accepted or rejected as a whole
//
// An announcement arrives through a tunnel from a gateway that is already trusted, so it
// may contain other gateways and newer keys. Keys that it does not contain are no longer
// trusted: the old key of a gateway, or the temporary key of an invite. Keys that are added
// to the spec afterwards are trusted in addition.
package peering
