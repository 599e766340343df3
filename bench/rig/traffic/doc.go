// Package traffic is one end of a measurement: a process that stands where a pod
// stands, sends what it is told to, and counts what arrives.
//
//	rig ──net/rpc on stdin and stdout──► End in podA ══ the network under test ══ End in podB
//
// The rig talks to its ends over pipes, never over the network that is measured.
// Both ends are of one machine, so their monotonic clocks agree. An End listens on
// fixed ports from the start; which of the two sends is decided for each test.
package traffic
