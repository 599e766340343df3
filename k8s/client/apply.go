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
