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

// Installer is the field manager of what the installation says of the ClusterNetwork. It
// is not that of the controller, so that what the installation says no longer goes, and
// what an admin applied stays.
const Installer = "strait-install"

// ParseNetwork reads the fields of a ClusterNetwork's spec that an installation gives, as
// YAML; none is as good as any. An error names the field. The API server checks values.
func ParseNetwork(text []byte) (map[string]any, error) {
	fields, err := parseStrict(text, new(v1alpha1.ClusterNetworkSpec))
	if err != nil {
		return nil, fmt.Errorf("not the spec of a ClusterNetwork: %w; write its fields as in kubectl explain clusternetworks.spec", err)
	}
	if fields == nil { // the text is null
		fields = make(map[string]any)
	}
	return fields, nil
}

// install gives a ClusterNetwork the fields that the installation says, once for each
// object that there is: an admin who changes one keeps that until the next start. It
// returns the object as it is then. What the API server refuses stops nothing but
// allocation; refused says it for people, with the remedy.
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
		return object, fmt.Sprintf("what the installation says of the cluster is refused: %s; correct clusterNetwork in its values",
			strings.ReplaceAll(err.Error(), "\n", " ")), nil
	case err != nil:
		return nil, "", fmt.Errorf("apply what the installation says to ClusterNetwork %s: %w", object.Name, err)
	}
	c.installed = is.UID
	return is, "", nil
}
