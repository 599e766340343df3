// Package ipam allocates prefixes and addresses.
//
// A Space contains the pools, the prefixes in use by this cluster, and the grants. It answers three questions: under which
// prefixes this cluster sees a remote cluster (Plan), which prefix is free (Prefix), which address is free (Address). It
// always chooses the lowest, so an answer depends on the contents of the Space, not on its history. An owner that already
// has a grant gets the same one again.
//
// The caller stores grants, as claims in a store that several writers share. ClaimName and Decide make that safe: no two
// overlapping claims are ever bound at once, regardless of crashes and stale reads. Decide contains the proof.
//
// The package does no I/O, takes no locks and reads no clock.
package ipam
