// Package uninstall removes Strait from a cluster without leftovers.
//
//	helm uninstall ─► Prepare, before Helm removes anything: deletes Peerings, detaches nodes
//	               ─► Helm removes the rest
//	               ─► Check: leftovers in objects and on nodes
//
// Only the node helper can remove what it set up in its kernel, so that has to be done
// while the helpers still run. Prepare requests it with an annotation of the
// ClusterNetwork, and each helper confirms it with the condition Released of its
// NodeAttachment. Remote clusters are not contacted: they may not exist any more.
package uninstall
