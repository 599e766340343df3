// Package ipam chooses prefixes and addresses, and decides who may use them.
//
// A Space knows the pools, the prefixes that this cluster uses itself, and what
// has been granted. It answers three questions: under which prefixes is a remote
// cluster seen (Plan), which prefix is free (Prefix), which address is free
// (Address). It always takes the lowest, so an answer follows from what the
// Space was told, never from the order or the history of it; whoever holds a
// grant already gets the same again.
//
// Grants are kept by the caller, as claims in a store that several writers
// share. ClaimName and Decide make that safe: no two claims that overlap are ever
// bound at once, whoever crashes, and whatever is read late. The argument stands
// at Decide.
//
// Nothing here does I/O, locks, or knows the time.
package ipam
