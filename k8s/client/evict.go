package client

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Evict deletes a pod as a drain of its node does. While a PodDisruptionBudget forbids it,
// the error is TooManyRequests.
func (c *Client) Evict(ctx context.Context, namespace, pod string) error {
	return c.groups[policyv1.SchemeGroupVersion].Post().AbsPath("/api/v1").Namespace(namespace).Resource("pods").Name(pod).SubResource("eviction").
		Body(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: namespace}}).Do(ctx).Error()
}
