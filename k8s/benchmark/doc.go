// Package benchmark measures a peering that is there: pods on both sides of it, what its
// gateways' processes cost, and, as the limit, two pods of one cluster without Strait
// between them.
//
//	cluster a: near ──────── direct       subject direct: the cluster's own network
//	             ╲
//	              gateway ══ gateway
//	                               ╲
//	cluster b:                      far   subject peering
//
// The ends are those of the rig (bench/rig/traffic), spoken to through the exec of their
// pods: nothing of the conversation crosses what is measured. What is found is a run like
// every other, for the same tables, pages and comparisons.
//
//	place.go  the pods and where they run     end.go   the conversation with them
//	tests.go  what is measured                cost.go  what gateways take of the CPU
//	run.go    in which order, how often
package benchmark
