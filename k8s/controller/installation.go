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

// installation identifies the installation of Strait that this controller belongs to: the
// UID of its service account, which an uninstall deletes. It distinguishes a controller
// that restarts during an uninstall, which must let the uninstall continue, from one that
// was installed later, where the CRDs and therefore the ClusterNetwork were kept.
type installation struct {
	id      string // empty: there is no service account, so the installation is not known
	adopted bool   // the ClusterNetwork belongs to it, or does not exist
}

// adopt assigns the ClusterNetwork to this installation, and removes the uninstall
// annotation of another installation. It does so once for each term of leadership: later,
// it would remove the annotation that uninstalls this installation.
func (c *controller) adopt(ctx context.Context) error {
	if c.installation.adopted {
		return nil
	}
	self, err := c.client.Self(ctx)
	if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("read the controller's own identity: %w", err)
	}
	c.installation.id = self.UID
	network, err := c.client.ClusterNetworks().Get(ctx, v1alpha1.ClusterNetworkName, metav1.GetOptions{}) // the cache may be stale
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("ClusterNetwork %s: %w", v1alpha1.ClusterNetworkName, err)
	}
	since, asked := network.Annotations[v1alpha1.UninstallAnnotation]
	switch {
	case err != nil: // it is created with the annotation
	case self.UID == "" || network.Annotations[v1alpha1.InstallationAnnotation] == self.UID:
		if asked {
			c.log.Warn("Strait is being uninstalled and nodes are detached; to keep it, remove the annotation from the ClusterNetwork", "annotation", v1alpha1.UninstallAnnotation, "since", since)
		}
	default:
		body := fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"annotations":{%q:%q,%q:null}}}`,
			network.ResourceVersion, v1alpha1.InstallationAnnotation, self.UID, v1alpha1.UninstallAnnotation)
		_, err := c.client.ClusterNetworks().Patch(ctx, network.Name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: Manager})
		if err != nil {
			return fmt.Errorf("assign ClusterNetwork %s to this installation: %w", network.Name, err)
		}
		if asked {
			c.log.Info("an earlier installation of Strait was uninstalled; attaching the nodes again", "since", since)
		}
	}
	c.installation.adopted = true
	return nil
}

func (i installation) annotations() map[string]string {
	if i.id == "" {
		return nil
	}
	return map[string]string{v1alpha1.InstallationAnnotation: i.id}
}

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
