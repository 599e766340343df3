package peering

import (
	"fmt"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// OffloadsError says that pods are offloaded over a Peering, and how to end that.
type OffloadsError string

func (e OffloadsError) Error() string { return string(e) }

// Offloads returns an OffloadsError if pods of one cluster may run in the other. Then the Peering
// is not deleted: its gateways would end with it, so that neither cluster learns of the end of a
// pod any more. The API server refuses it, too (package rbac).
func Offloads(p *v1alpha1.Peering) error {
	switch {
	case p.DeletionTimestamp != nil:
		return nil
	case p.Spec.Borrow != nil:
		return OffloadsError(fmt.Sprintf("pods of this cluster may run in the cluster of Peering %s; first run: strait unborrow --from %s", p.Name, p.Name))
	case p.Spec.Lend != nil:
		return OffloadsError(fmt.Sprintf("pods of the cluster of Peering %s may run in this one; first run: strait unlend --all --from %s", p.Name, p.Name))
	}
	return nil
}
