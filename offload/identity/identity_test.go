package identity_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/offload/identity"
	"strait.dev/strait/offload/protocol"
	"strait.dev/strait/test/fakekube"
)

func TestAnAgentKeepsItsKey(t *testing.T) {
	t.Parallel()
	secrets := fakekube.New().Client(t).Secrets("default")
	first, err := identity.Load(t.Context(), secrets, "agent")
	if err != nil {
		t.Fatal(err)
	}
	again, err := identity.Load(t.Context(), secrets, "agent")
	if err != nil || protocol.Fingerprint(first) != protocol.Fingerprint(again) {
		t.Errorf("it was %s, and is %s, %v", protocol.Fingerprint(first), protocol.Fingerprint(again), err)
	}
	is, err := secrets.Get(t.Context(), "agent", metav1.GetOptions{})
	if err != nil || is.Type != corev1.SecretTypeTLS || is.Annotations[identity.FingerprintAnnotation] != protocol.Fingerprint(first) {
		t.Errorf("the Secret has type %s and the annotations %v, %v", is.Type, is.Annotations, err)
	}
	if other, err := identity.Load(t.Context(), secrets, "other"); err != nil || protocol.Fingerprint(other) == protocol.Fingerprint(first) {
		t.Errorf("another agent has the same key, %v", err)
	}
}
