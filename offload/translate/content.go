package translate

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/offload/protocol"
)

// ConfigMapContent returns the content of a ConfigMap.
func ConfigMapContent(m *corev1.ConfigMap) *protocol.Content {
	return &protocol.Content{ConfigMap: &protocol.ConfigMap{Data: m.Data, BinaryData: without(m.BinaryData)}}
}

// SecretContent returns the content of a Secret, or a *Refusal.
func SecretContent(s *corev1.Secret) (*protocol.Content, error) {
	c := &protocol.Content{Secret: &protocol.Secret{Type: s.Type, Data: without(s.Data)}}
	return c, JudgeContent(protocol.KindSecret, c)
}

// without returns the values with none that is nil: an empty value has one encoding.
func without(values map[string][]byte) map[string][]byte {
	all := make(map[string][]byte, len(values))
	for key, value := range values {
		if value == nil {
			value = []byte{}
		}
		all[key] = value
	}
	return all
}

// JudgeContent returns a *Refusal for a content that an object of a kind may not have.
func JudgeContent(kind string, c *protocol.Content) error {
	switch {
	case c.Kind() != kind:
		return &Refusal{"content", "is not that of a " + kind}
	case c.Secret != nil && c.Secret.Type == corev1.SecretTypeServiceAccountToken:
		return &Refusal{"type", "tokens of service accounts are not carried over; use a Secret of another type"}
	case c.Service != nil:
		return judgeService(c.Service)
	}
	return nil
}

func copied(peering, namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{PeeringLabel: peering}}
}

// ConfigMap returns the copy of a ConfigMap.
func ConfigMap(peering, namespace, name string, c *protocol.ConfigMap) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: copied(peering, namespace, name), Data: c.Data, BinaryData: c.BinaryData}
}

// Secret returns the copy of a Secret.
func Secret(peering, namespace, name string, c *protocol.Secret) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: copied(peering, namespace, name), Type: c.Type, Data: c.Data}
}
