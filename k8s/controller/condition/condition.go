// Package condition makes the conditions in the status of objects that the controller writes.
package condition

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
)

// Own returns the conditions of the given types: those that the controller
// writes.
func Own(all []metav1.Condition, types ...string) (owned []metav1.Condition) {
	for _, t := range types {
		if c := meta.FindStatusCondition(all, t); c != nil {
			owned = append(owned, *c)
		}
	}
	return owned
}

// New returns a condition without its type. The message is cut to what the API allows.
func New(status metav1.ConditionStatus, reason, message string, arguments ...any) metav1.Condition {
	return metav1.Condition{Status: status, Reason: reason, Message: client.Clip(fmt.Sprintf(message, arguments...), maxMessage)}
}

// maxMessage is the maximum length of a condition's message in the API, in bytes.
const maxMessage = 32768
