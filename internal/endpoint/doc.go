// Package endpoint is what the agents of `strait verify` do to each other: echo servers,
// and probes that tell apart why something does not come back.
//
//	Listen   echoes over TCP and UDP, and says who asked       server.go, message.go
//	Run      tries checks, one sequence for each destination   order.go, run.go, tcp.go, datagram.go
//	Flow     keeps a connection busy for as long as asked to   flow.go
//
// Every payload carries the marker of its run, again and again, so that whoever looks at
// the network knows one of its packets, also a fragment or segment of it.
package endpoint

// Port is where agents echo, TCP and UDP.
const Port = 6099
