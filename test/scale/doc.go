// Package scale measures one cluster of many nodes and pods: a real API server, and the
// real programs of Strait beside it. `make scale` runs it in full and holds the results
// against bounds; without SCALE_NODES the test is a small one that only sees whether
// everything is measured.
package scale
