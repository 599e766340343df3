package workload

import (
	"fmt"
	"slices"

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

// generationsAtOnce is the number of key generations that a pod can get without being
// recreated.
const generationsAtOnce = 8

// SecretName returns the name of the Secret with a key of a gateway.
func SecretName(gateway string, generation int32) string {
	return fmt.Sprintf("%s-key-%d", gateway, generation)
}

// KeyFile returns the name of the file in that Secret.
func KeyFile(generation int32) string { return fmt.Sprintf("%d.key", generation) }

// Generation returns the key generation that a peering requests.
func Generation(p *v1alpha1.Peering) int32 { return max(p.Spec.Gateway.KeyGeneration, 1) }

// generations returns the generations whose keys are mounted in pods if they exist: in
// blocks, so that most new keys reach running pods, and including the keys in use.
func generations(p *v1alpha1.Peering) (all []int32) {
	last := block(Generation(p))
	blocks := []int32{last - 1, last}
	for _, g := range p.Status.Gateways {
		if g.KeyGeneration > 0 {
			blocks = append(blocks, block(g.KeyGeneration))
		}
	}
	slices.Sort(blocks)
	for _, b := range slices.Compact(blocks) {
		if b < 0 || b > last {
			continue
		}
		for i := range int32(generationsAtOnce) {
			all = append(all, b*generationsAtOnce+i+1)
		}
	}
	return all
}

func block(generation int32) int32 { return (generation - 1) / generationsAtOnce }
