// Package verify tries whether two joined clusters reach each other in every way that
// their users will.
//
//	Run      the whole matrix, with agents in both clusters      run.go
//	Short    what the objects of one cluster say                 short.go
//
// What is tried is planned as data (plan.go) from what the agents and the Peerings are
// (survey.go), done by agents (package endpoint, in pods of package agents), judged
// (judge.go, cause.go) and printed (table.go, junit.go).
package verify
