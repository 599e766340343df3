// Package bench measures gateways without root and without a cluster: a ladder of
// tests, from one function to two whole gateways, so that each layer's price
// shows.
//
//	packet      parse ► nat ► egress, ingress ► copy ► seal, open ► journey (all of them)
//	table       egress and ingress with many nodes, routes and flows
//	socket      a gateway's socket: sending alone, receiving alone
//	throughput  udp (two sockets on loopback) ► gateways (two, with senders as nodes)
//	rtt         udp ► gateways, of a known flow and of new ones
//	rr          udp ► gateways, with many requests under way at all times
//	tcp         udp ► gateways, between two network stacks in memory
//	lanes       one pair of gateways ► two at the same time
//	shards      sockets that share a port: who gets which flow
//	idle        what a peering without traffic takes in memory
//
// ladder.go lists the tests. A Test says of itself what it measures (Name), on
// which rung (Subject) and under which circumstances (Mode); Run takes all of them
// in turn, as often as asked, every other time in reverse.
package bench
