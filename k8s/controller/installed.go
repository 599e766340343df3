package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// Installer is the field manager of the fields of the ClusterNetwork that the installation
// sets. It differs from the controller's, so that fields that the installation no longer
// sets are removed, and fields that an admin applied stay.
const Installer = "strait-install"

// install applies the fields that the installation sets to a ClusterNetwork, once for each
// object: a change by an admin is kept until the next start. It returns the object as it is
// afterwards. Fields that the API server rejects only stop allocation; refused then
// explains why, with the remedy.
func (c *controller) install(ctx context.Context, object *v1alpha1.ClusterNetwork) (is *v1alpha1.ClusterNetwork, refused string, err error) {
	if c.installSpec == nil || c.installed == object.UID {
		return object, "", nil
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ClusterNetwork",
		"metadata": map[string]any{"name": object.Name}, "spec": c.installSpec,
	})
	if err != nil {
		return nil, "", err
	}
	is, err = c.client.ClusterNetworks().Patch(ctx, object.Name, types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: Installer, Force: new(true)})
	switch {
	case apierrors.IsInvalid(err):
		return object, fmt.Sprintf("the clusterNetwork value of the installation is rejected: %s; correct it in the chart's values",
			strings.ReplaceAll(err.Error(), "\n", " ")), nil
	case err != nil:
		return nil, "", fmt.Errorf("apply the values of the installation to ClusterNetwork %s: %w", object.Name, err)
	}
	c.installed = is.UID
	return is, "", nil
}
