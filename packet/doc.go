// Package packet reads and edits IP packets in place: parsing, checksums, flow
// hashes, fragmentation and reassembly, TCP segmentation, MSS, ICMP errors, ARP
// and neighbour discovery.
//
// All functions depend only on their arguments; only Reassembly has state. Only
// NewReassembly allocates. Nothing blocks, reads a clock or does I/O. The caller owns all
// memory: functions that write take the destination, functions that edit change the slice
// they are given, and no slice is kept after the call returns (for the exception, see
// Pieces).
//
// A packet is a []byte that starts with the IP header. Parse validates it once and stores
// offsets and addresses in an IP. Every other function takes that IP and trusts it: an IP
// that does not belong to the bytes is a programming error, not an input error.
package packet
