// Package v1alpha1 defines the custom resources of the API group strait.dev/v1alpha1. All
// of them except GatewayReports, ExportedServices and ReceivedServices are cluster-scoped.
//
//	ClusterNetwork  one, "default": this cluster's ID, CIDRs and pools    admin; status: controller
//	Peering         one for each remote cluster                           admin; status: controller
//	GatewayReport   one for each gateway, in the namespace of gateways     that gateway
//	NodeAttachment  one for each node, under the node's name              controller; status: the node helper
//	AddressClaim    one for each allocated CIDR or address                controller, admin
//	AddressMapping  an external address for a target outside of the pods  admin; status: controller
//	ExportedService one for each Service that this cluster exports        controller
//	ReceivedService one for each Service that a remote cluster exports    a gateway; status: controller
//
// The API server validates what can be checked within one object, with the CEL rules in the
// markers below; there is no webhook. Checks that need several objects, for instance
// whether a CIDR is free in this cluster, are made by the controller, which reports the
// result in conditions.
//
// In all lists, empty means none, never any. The types are plain data: concurrent reads are
// safe while no goroutine writes; use DeepCopy before changing an object from a cache.
//
// +groupName=strait.dev
// +kubebuilder:object:generate=true
package v1alpha1

//go:generate go tool -modfile=../../../tools/go.mod controller-gen object crd paths=. output:crd:dir=../crds
//go:generate sh -c "cp ../crds/*.yaml ../../../charts/strait/files/crds/"
