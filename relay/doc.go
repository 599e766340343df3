// Package relay serves address mappings: TCP and UDP from clients to a mapped address are terminated in the gateway's own
// host stack and re-originated, from an ordinary socket of the gateway's machine, to the target of the mapping:
//
//	SYN      ► mapped? ► within quota? ► dial the target ► it answered? ► SYN-ACK ► copy both ways
//	segment of an unknown connection ► mapped? ► dropped for 4 s, since another gateway may have it ► reset
//	datagram ► mapped? ► within quota? ► a session with its own socket ► copy both ways
//	ping     ► mapped? ► is the target up? ► reply
//
// It needs no kernel rule and no capability. The target sees the address of the gateway, not that of the client.
//
// The client sees the same result as without a relay: a reset from a target that refuses, an ICMP host unreachable for an
// unreachable target, and silence from a silent target. When a limit of the relay is reached, the client gets an ICMP
// "administratively prohibited", as from other parts of a gateway.
package relay
