package operator

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// condition returns a condition of a Peering, nil if the controller has not evaluated the
// current generation.
func condition(p *v1alpha1.Peering, of string) *metav1.Condition {
	found := meta.FindStatusCondition(p.Status.Conditions, of)
	if found == nil || found.ObservedGeneration < p.Generation {
		return nil
	}
	return found
}

// notReadyReason explains what a Peering lacks, empty if it is ready.
func notReadyReason(p *v1alpha1.Peering) string {
	switch ready := condition(p, v1alpha1.ConditionReady); {
	case p.DeletionTimestamp != nil:
		return fmt.Sprintf("Peering %s is being deleted; wait until it is deleted", p.Name)
	case ready == nil:
		return fmt.Sprintf("the controller has not processed Peering %s yet; if this persists, check that the controller runs", p.Name)
	case ready.Status != metav1.ConditionTrue:
		return ready.Message
	}
	return ""
}
