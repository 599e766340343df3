// Package gateway decides what happens to packets.
//
// A gateway has two journeys. Egress takes frames from this cluster's nodes and turns them
// into packets for the tunnel; Ingress takes packets from the tunnel and turns them into
// frames for nodes. A third, short one takes the packets of the gateway's own host stack. The
// files follow them: egress.go, ingress.go and origin.go are in the order in which a packet
// is processed.
//
// A journey is a function of (bytes, table, flow state, now): it does no I/O, starts no
// goroutine, reads no clock and does not allocate. It edits the packet in place and returns a
// Result that tells the caller what to do with the packet. Every dropped packet has a Reason,
// and every reason is counted.
//
// All journeys read one immutable Table. To change anything, build a new Table and store it in
// the Gateway: packets in flight finish with the old one. A Trace shows what a Table does with
// a packet, with the code of the same journeys.
package gateway
