// Package relay serves address mappings: TCP and UDP that callers send to a mapped
// address end in the gateway's own host stack and start anew, from an ordinary socket of
// the gateway's machine, towards the target that the address stands for:
//
//	SYN      ► mapped? ► room? ► dial the target ► it answered? ► SYN-ACK ► copy both ways
//	datagram ► mapped? ► room? ► a session with a socket of its own ► copy both ways
//	ping     ► mapped? ► is the target up? ► reply
//
// No kernel rule and no capability is needed for it. The target sees the address of the
// gateway, not the caller's.
//
// What a caller's socket is told is what it would be told without a relay between: a
// target that refuses is a reset, one that cannot be reached an ICMP host unreachable,
// one that says nothing is silence. What the relay itself refuses, because a limit is
// reached, is an ICMP "administratively prohibited", as elsewhere in a gateway.
package relay
