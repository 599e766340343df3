// Package gateway decides what happens to packets.
//
// A gateway has two journeys. Egress takes frames that this cluster's nodes send
// and turns them into packets for the tunnel; Ingress takes packets from the
// tunnel and turns them into frames for nodes. A third, short one takes what the
// gateway's own host stack sends. The files follow them: egress.go, ingress.go
// and origin.go read in the order the packet travels.
//
// A journey is a function of (bytes, table, flow state, now): it does no I/O,
// starts no goroutine, reads no clock and allocates nothing. It edits the packet
// in place and says in a Result what the caller has to do with it. Every packet
// that goes no further has a Reason, and every reason is counted.
//
// All of them read one immutable Table. Changing anything means building a new
// Table and storing it in the Gateway: packets in flight finish with the old one.
// A Trace is what a Table would do with a packet, by the same journeys.
package gateway
