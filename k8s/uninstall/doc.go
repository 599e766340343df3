// Package uninstall takes Strait out of a cluster so that nothing stays.
//
//	helm uninstall ─► Prepare, before Helm removes anything: Peerings go, nodes let go
//	               ─► Helm removes the rest
//	               ─► Check: what is left of objects, and on nodes
//
// Only a node's helper can take away what it set up in its kernel, so that it has to be
// done while the helpers still run. Prepare asks for it with an annotation of the
// ClusterNetwork, and each helper answers with the condition Released of its
// NodeAttachment. The other clusters are not asked: they may be gone.
package uninstall
