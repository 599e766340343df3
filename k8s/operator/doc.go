// Package operator is what the operator's commands do: it joins clusters in the three
// equal ways, says how far each peering has come, and explains addresses.
//
//	Join            two clusters, with access to both                     join.go
//	NewInvite,
//	Accept          one cluster after the other, with a token in between  invite.go, accept.go, token.go
//	ForRemote       the object that the other cluster needs, for Git      snippet.go
//	Look, Await     what is there, stage by stage                         report.go, stages.go, table.go
//	PlanOf, Resolve where ranges are seen, what an address means          plan.go, resolve.go
//	Pair            one peering as both of its clusters have it           pair.go
//
// Everything is in the objects: a command that was interrupted is run again, finds what
// is there, and goes on. What is as it should be is not written again.
package operator
