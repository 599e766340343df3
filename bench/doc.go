// Package bench measures gateways without root and without a cluster: a ladder of
// tests, from one function to two complete gateways, which shows the cost of each
// layer.
//
//	packet      parse ► nat ► egress, ingress ► copy ► seal, open ► pipeline (all of them)
//	table       egress and ingress with many nodes, routes and flows
//	socket      a gateway's socket: sending only, receiving only
//	throughput  udp (two sockets on loopback) ► gateways (two, with senders as nodes)
//	rtt         udp ► gateways, of a known flow and of new ones
//	rr          udp ► gateways, with many requests in flight at all times
//	tcp         udp ► gateways, between two in-memory network stacks; forward and proxy:
//	            connections that a gateway carries for a cluster without node helpers
//	idle        memory of a peering without traffic
//
// ladder.go lists the tests. A Test has a Name (what it measures), a Subject (the
// rung of the ladder) and a Mode (the conditions). Run runs all of them in order once
// per repetition, in reverse order every other time.
package bench
