package operator

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// condition is what the controller says of a Peering as it is now, nil if it has not
// looked at that yet.
func condition(p *v1alpha1.Peering, of string) *metav1.Condition {
	found := meta.FindStatusCondition(p.Status.Conditions, of)
	if found == nil || found.ObservedGeneration < p.Generation {
		return nil
	}
	return found
}

// notReadyReason is what a Peering misses, empty if it is ready.
func notReadyReason(p *v1alpha1.Peering) string {
	switch ready := condition(p, v1alpha1.ConditionReady); {
	case p.DeletionTimestamp != nil:
		return fmt.Sprintf("Peering %s is being deleted; wait until it is gone", p.Name)
	case ready == nil:
		return fmt.Sprintf("the controller has not looked at Peering %s yet; see whether it runs, if this lasts", p.Name)
	case ready.Status != metav1.ConditionTrue:
		return ready.Message
	}
	return ""
}
