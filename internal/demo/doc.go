// Package demo runs two clusters in one unprivileged process, connects them and
// checks the connection step by step: ping, HTTP, a bulk transfer, traceroute
// and ICMP errors.
//
//	pod a ── node a ══Geneve══ gateway a ══WireGuard══ gateway b ══Geneve══ node b ── pod b
//	└ netstack ───┘ └ UDP on loopback ┘ └ UDP on loopback ┘ └ UDP on loopback ┘ └ netstack ┘
//
// Pods and nodes are in-memory network stacks. The gateways run the code of
// "strait gateway" and exchange real UDP datagrams with the nodes and with each
// other on loopback. Both clusters use the same CIDRs; package plan has all
// addresses.
//
// host.go, overlaysocket.go and node.go are the parts of a cluster,
// which cluster.go assembles. demo.go runs the steps, one file each. report.go
// holds the result and textoutput.go prints it.
package demo
