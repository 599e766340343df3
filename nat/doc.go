// Package nat translates addresses.
//
// Prefix translation is stateless: a Map pairs two prefixes of equal length and
// replaces the network bits, so that a person can do it in their head and both
// directions need no table of flows (the shape of RFC 6296, without its
// checksum-neutral host bits: ports and payloads are updated instead).
// Checksums are updated, never recomputed (RFC 1624), which also keeps a wrong
// one wrong. ICMP errors are translated outside and inside: RewriteQuote edits
// the packet that they quote.
//
// Masquerade is for sources that no prefix stands for: flow by flow it gives them
// a port of an external address (RFC 4787, 5382, 5508, 6888, 7857), and Replace
// and its kin write that into packets. Its memory is allocated once and bounded.
//
// Nothing here allocates for a packet, or may fail half way: a packet is either
// translated whole or untouched.
package nat
