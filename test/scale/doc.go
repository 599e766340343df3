// Package scale measures one cluster with many nodes and pods: a real API server, and the
// real programs of Strait. `make scale` runs it in full and checks bounds; without
// SCALE_NODES the test is small and only checks that everything is measured.
package scale
