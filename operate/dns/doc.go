// Package dns lets the CoreDNS of a cluster serve the names of imported Services, in the
// zone clusterset.local, and checks whether it does.
//
//	Configure, Remove  edits of a Corefile as text, which revert each other  corefileedit.go, corefile.go
//	Find               CoreDNS: its Deployment, ConfigMaps and version       coredns.go
//	                   caches before it, and servers in place of it          nodelocal.go, stubdomains.go
//	PlanConfigure,
//	PlanRemove         what to change in a cluster, and the changes          plan.go
//	Check              findings about the configuration                     check.go
//	Resolve            findings about names, as a pod resolves them          resolve.go
//
// CoreDNS has the support built in: the plugin kubernetes with the property multicluster
// reads ServiceImports and their EndpointSlices.
package dns
