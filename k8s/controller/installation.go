package controller

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// installation is the installation of Strait that this controller belongs to: the UID of
// its service account, which an uninstall deletes. So a controller that was started anew
// in the middle of an uninstall, and must let it go on, is told from one that was
// installed after it, where the CRDs and with them the ClusterNetwork were kept.
type installation struct {
	id      string // empty: there is no service account, so that it cannot be told
	adopted bool   // the ClusterNetwork is known to be of it, or not there
}

// adopt makes the ClusterNetwork that of this installation: what asked for the end of
// another one goes. It does so once for each time that the controller leads: later, it
// would take away what asks for the end of this one.
func (c *controller) adopt(ctx context.Context) error {
	if c.installation.adopted {
		return nil
	}
	self, err := c.client.Self(ctx)
	if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return fmt.Errorf("ask who the controller is: %w", err)
	}
	c.installation.id = self.UID
	network, err := c.client.ClusterNetworks().Get(ctx, v1alpha1.ClusterNetworkName, metav1.GetOptions{}) // the cache may be older
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("ClusterNetwork %s: %w", v1alpha1.ClusterNetworkName, err)
	}
	since, asked := network.Annotations[v1alpha1.UninstallAnnotation]
	switch {
	case err != nil: // it is made with the annotation
	case self.UID == "" || network.Annotations[v1alpha1.InstallationAnnotation] == self.UID:
		if asked {
			c.log.Warn("Strait is being uninstalled: nodes have nothing of it; to keep it, take the annotation from the ClusterNetwork", "annotation", v1alpha1.UninstallAnnotation, "since", since)
		}
	default:
		body := fmt.Sprintf(`{"metadata":{"resourceVersion":%q,"annotations":{%q:%q,%q:null}}}`,
			network.ResourceVersion, v1alpha1.InstallationAnnotation, self.UID, v1alpha1.UninstallAnnotation)
		_, err := c.client.ClusterNetworks().Patch(ctx, network.Name, types.MergePatchType, []byte(body), metav1.PatchOptions{FieldManager: Manager})
		if err != nil {
			return fmt.Errorf("make ClusterNetwork %s that of this installation: %w", network.Name, err)
		}
		if asked {
			c.log.Info("an earlier installation of Strait was uninstalled; nodes are connected again", "since", since)
		}
	}
	c.installation.adopted = true
	return nil
}

// annotations are those of a ClusterNetwork that this controller makes.
func (i installation) annotations() map[string]string {
	if i.id == "" {
		return nil
	}
	return map[string]string{v1alpha1.InstallationAnnotation: i.id}
}
