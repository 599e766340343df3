// Package preflight looks at clusters before Strait is installed, and says what will not
// work, what may not, and why.
//
//	read   what the API server tells                 facts.go
//	look   pods on the nodes, and what they send     nodes.go, mesh.go, between.go
//	judge  facts become findings: functions of data  cluster.go, plugin.go, node.go, pair.go
//
// Nothing that it makes stays: its pods have namespaces of their own, which go with them.
package preflight
