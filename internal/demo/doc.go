// Package demo joins two clusters inside one unprivileged process and shows that
// it works: ping, HTTP, a bulk transfer, traceroute and ICMP errors across, each
// step checked.
//
//	pod a ── node a ══Geneve══ gateway a ══WireGuard══ gateway b ══Geneve══ node b ── pod b
//	└ netstack ───┘ └ UDP on loopback ┘ └ UDP on loopback ┘ └ UDP on loopback ┘ └ netstack ┘
//
// Pods and nodes are network stacks in memory. The gateways are real ones, as
// "strait gateway" runs them, and what lies between them and the nodes are real
// datagrams on loopback. Both clusters use the same address ranges for
// everything; plan.go has all addresses.
//
// The files follow the making of it: plan.go, host.go, wire.go and node.go make
// a cluster in cluster.go; demo.go runs the steps, which have files of their own;
// report.go is the outcome and text.go shows it.
package demo
