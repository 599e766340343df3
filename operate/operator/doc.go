// Package operator implements the operator's commands: it joins clusters in three
// equivalent ways, reports the progress of each peering, and explains addresses.
//
//	Join            two clusters, with access to both                     join.go
//	NewInvite,
//	Accept          one cluster after the other, with a token in between  invite.go, accept.go, token.go
//	ForRemote       the object that the other cluster needs, for Git      snippet.go
//	ReadReport,
//	Await           status of peerings, stage by stage                    report.go, stages.go, table.go
//	ExportServices,
//	ReadServices    Services of the Multi-Cluster Services API             exportservice.go, serviceobjects.go, servicesreport.go
//	PlanOf, Resolve mapping of CIDRs, meaning of an address               cidrplan.go, resolve.go
//
//	Pair            the Peerings of both clusters                         peeringpair.go
//
// All state is in the objects: an interrupted command can be run again and continues from
// the existing state. Objects that are in the desired state are not written again.
package operator
