package client

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ApplyYAML applies an object of any type, given as YAML, at its path, like
// /api/v1/namespaces/a (server-side apply). It takes over fields of other managers.
func (c *Client) ApplyYAML(ctx context.Context, path string, object []byte, manager string) error {
	options := metav1.ApplyOptions{FieldManager: manager, Force: true, DryRun: c.dryRun}.ToPatchOptions()
	return c.groups[corev1.SchemeGroupVersion].Patch(types.ApplyYAMLPatchType).AbsPath(path).VersionedParams(&options, c.parameter).
		Body(object).Do(ctx).Error()
}

// DeletePath deletes the object of any type at a path, like /api/v1/namespaces/a. What it owns is
// deleted after it.
func (c *Client) DeletePath(ctx context.Context, path string) error {
	background := metav1.DeletePropagationBackground
	return c.groups[corev1.SchemeGroupVersion].Delete().AbsPath(path).Body(&metav1.DeleteOptions{PropagationPolicy: &background, DryRun: c.dryRun}).Do(ctx).Error()
}
