package workload

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/install"
	"strait.dev/strait/k8s/peering"
)

// PeeringLabel is on all objects that belong to the gateways of a peering; its value is the
// peering's name.
const PeeringLabel = peering.Label

// ObjectMeta returns the metadata of an object that belongs to a peering.
func ObjectMeta(g Gateways, peering *v1alpha1.Peering, name string) metav1.ObjectMeta {
	owner := metav1.NewControllerRef(peering, v1alpha1.GroupVersion.WithKind("Peering"))
	*owner.BlockOwnerDeletion = false // the peering may be deleted first
	return metav1.ObjectMeta{
		Name: name, Namespace: g.Namespace, Labels: labels(peering),
		OwnerReferences: []metav1.OwnerReference{*owner},
	}
}

func labels(peering *v1alpha1.Peering) map[string]string {
	return map[string]string{
		install.NameLabel:              install.Name,
		install.ComponentLabel:         install.Gateway,
		"app.kubernetes.io/instance":   peering.Name,
		"app.kubernetes.io/managed-by": "strait",
		"app.kubernetes.io/part-of":    "strait",
		PeeringLabel:                   peering.Name,
	}
}

// selector selects the pods of a peering. It must never change: that of a StatefulSet is
// immutable.
func selector(peering *v1alpha1.Peering) map[string]string {
	return map[string]string{install.NameLabel: install.Name, install.ComponentLabel: install.Gateway, PeeringLabel: peering.Name}
}
