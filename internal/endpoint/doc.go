// Package endpoint is what runs in the agents of `strait verify`: echo servers, and probes
// that distinguish why a packet does not come back.
//
//	Listen   echoes over TCP and UDP, and reports the client      server.go, message.go
//	Run      runs checks, one sequence per destination            order.go, run.go, tcp.go, datagram.go
//	Flow     sends on a connection until it is stopped            flow.go
//	Streams  keeps many flows busy, and says what they lose       streams.go
//
// Every payload repeats the marker of its run, so that a packet of the run can be
// recognised on the network, even a fragment or segment of it.
//
// Orders and results are plain data on every platform, for the commands that send and judge
// them. The code that carries them out needs Linux.
package endpoint

// Port is the TCP and UDP port of the agents' echo servers.
const Port = 6099
