// Package benchmark measures an existing peering: between pods of both clusters, with the
// CPU time of the gateways, and, as the upper limit, between two pods of one cluster
// without Strait.
//
//	cluster a: near ──────── direct       subject direct: the cluster's own network
//	             ╲
//	              gateway ══ gateway
//	                               ╲
//	cluster b:                      far   subject peering
//
// The traffic ends are those of the rig (bench/rig/traffic), controlled through exec in
// their pods, so control traffic does not use the measured path. The result is a run like
// every other, for the same tables, pages and comparisons.
//
//	placement.go  the pods and their nodes     trafficend.go   control of the pods
//	tests.go      the tests                    gatewaycost.go  CPU time of gateways
//	run.go        order and repetitions
package benchmark
