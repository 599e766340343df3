// Package verify tests whether two joined clusters reach each other in every way that
// workloads use.
//
//	Run      the whole matrix, with agents in both clusters      run.go
//	Short    the state in the objects of one cluster             short.go
//	Disrupt  what flows lose while gateways are disrupted        disrupt.go, disruptions.go
//
// Tests are planned as data (matrixplan.go) from the state of agents and Peerings
// (clusterstate.go), executed by agents (package endpoint, in pods of package agents),
// evaluated (judge.go) and printed (table.go, junit.go).
package verify
