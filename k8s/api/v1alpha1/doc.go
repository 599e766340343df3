// Package v1alpha1 holds the objects of the API group strait.dev/v1alpha1. All of
// them belong to the whole cluster, none to a namespace.
//
//	ClusterNetwork  one, "default": this cluster's ID, ranges and pools   admin; status: controller
//	Peering         one for each remote cluster                           admin; status: controller, gateways
//	NodeAttachment  one for each node, under the node's name              controller; status: that node's helper
//	AddressClaim    one for each range that is taken                      controller, admin
//	AddressMapping  an external address for a target outside of the pods  admin; status: controller
//
// What one object can say about itself, the API server checks with the rules that
// stand here as markers; there is no webhook. What takes several objects to see,
// for instance that a range is free in this cluster, the controller checks and
// reports in conditions.
//
// In all lists, empty means none, never any. The types are plain data: an object
// may be read from several goroutines while none changes it; DeepCopy gives one to
// change.
//
// +groupName=strait.dev
// +kubebuilder:object:generate=true
package v1alpha1

//go:generate go tool -modfile=../../../tools/go.mod controller-gen object crd paths=. output:crd:dir=../crds
//go:generate sh -c "cp ../crds/*.yaml ../../../charts/strait/files/crds/"
