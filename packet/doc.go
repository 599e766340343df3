// Package packet reads and edits IP packets in place: parsing, checksums, flow
// hashes, fragmentation and reassembly, TCP segmentation, MSS, ICMP errors, ARP
// and neighbour discovery.
//
// Everything here is a function of bytes, but for Reassembly, which is one of the
// fragments before too. Nothing but NewReassembly allocates; nothing blocks, reads
// a clock or does I/O. Callers own all memory: a function that writes takes the
// destination, a function that edits edits the slice it is given, and nothing
// keeps a slice after it returns (Pieces says for how long it does).
//
// A packet is a []byte that starts with the IP header. Parse validates it once
// and leaves offsets and addresses in an IP; every other function takes that IP
// and trusts it, so an IP that does not belong to the bytes is a programming
// error, not an input error.
package packet
