// Package preflight inspects clusters before Strait is installed, and reports what will not
// work, what may not work, and why.
//
//	read     state from the API server                  clusterfacts.go, pluginresources.go
//	DNS      CoreDNS and its configuration              package dns
//	inspect  pods on the nodes, and UDP between them    nodeagents.go, udpprobes.go
//	evaluate facts to findings, without side effects    clusterfindings.go, helperfindings.go, nodefindings.go, pairfindings.go
//	         of network plugins                         networkplugin.go, calicofindings.go, ciliumfindings.go, podpools.go
//
// It leaves nothing behind: its pods run in separate namespaces, which are deleted with
// them.
package preflight
