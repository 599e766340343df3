// Package nat translates addresses.
//
// Prefix translation is stateless: a Map pairs two prefixes of equal length and replaces
// the network bits, so that the result is easy to compute by hand and no direction needs a
// flow table. (RFC 6296 does the same, but keeps checksums by changing host bits; here the
// checksums change instead.) Checksums are updated, never recomputed (RFC 1624), so that a
// wrong checksum stays wrong. ICMP errors are translated outside and inside: RewriteQuote
// edits the packet that they quote.
//
// Masquerade is for sources without a prefix mapping. Each flow gets a port of an external
// address (RFC 4787, 5382, 5508, 6888, 7857), and the Replace functions write that into
// packets. Its memory is allocated once and bounded.
//
// Translating a packet does not allocate. A packet is either translated completely or left
// unchanged.
package nat
