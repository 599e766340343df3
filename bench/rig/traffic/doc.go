// Package traffic is one end of a measurement: a process in the place of a pod, which sends
// as requested and counts what arrives.
//
//	rig ──net/rpc on stdin and stdout──► End in podA ══ the network under test ══ End in podB
//
// The rig communicates with its ends over pipes, never over the measured network. Both ends
// run on one machine, so they share a monotonic clock. An End listens on fixed ports from
// the start; each test chooses which end sends.
//
// An End uses the API of Linux. A Client and its requests are for every platform: strait
// bench --peering has its ends in pods.
package traffic
