package operator

import (
	"context"
	"errors"
	"fmt"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/peering"
)

// UnpeerOptions say how two clusters are separated.
type UnpeerOptions struct {
	Name             string // of the Peering in the local cluster
	GatewayNamespace string // in both clusters
	Waiting          Waiting
}

// Unpeer deletes a Peering, and with access to the remote cluster the one there, and waits
// until the gateways and their keys are gone. Remote is nil without access. A Peering that
// one cluster no longer has is not an error while the other cluster has its own.
func Unpeer(ctx context.Context, local Cluster, remote *Cluster, o UnpeerOptions) error {
	doomed, err := toUnpeer(ctx, local, remote, o.Name)
	if err != nil {
		return err
	}
	dry := false
	for _, one := range doomed {
		if err := peering.Offloads(one.peering); err != nil {
			return fmt.Errorf("%s: %w", one.Name, err)
		}
	}
	for _, one := range doomed {
		if one.peering.DeletionTimestamp == nil {
			err = one.remove(ctx, one.peering, o.GatewayNamespace, o.Waiting)
		} else {
			err = one.untilRemoved(ctx, one.peering, o.GatewayNamespace, o.Waiting)
		}
		if errors.Is(err, ErrDryRun) {
			dry = true
			continue
		}
		if err != nil {
			return err
		}
	}
	if dry {
		return ErrDryRun
	}
	return nil
}

type doomedPeering struct {
	Cluster
	peering *v1alpha1.Peering
}

// toUnpeer returns the Peerings to delete, one at least.
func toUnpeer(ctx context.Context, local Cluster, remote *Cluster, name string) (doomed []doomedPeering, err error) {
	all, err := local.Peerings(ctx)
	if err != nil {
		return nil, err
	}
	var with v1alpha1.ClusterID
	if p := named(all, name); p != nil {
		doomed, with = append(doomed, doomedPeering{local, p}), remoteID(p)
	}
	if remote != nil {
		there, err := remotePeering(ctx, local, *remote, with)
		if err != nil {
			return nil, err
		}
		if there != nil {
			doomed = append(doomed, doomedPeering{*remote, there})
		}
	}
	if len(doomed) == 0 {
		return nil, fmt.Errorf("%s: %w", local.Name, noPeering(name, all))
	}
	return doomed, nil
}

// remotePeering is the Peering of the remote cluster with the local one, nil if it has none.
// With is the cluster that the local Peering is with, empty if that is not known.
func remotePeering(ctx context.Context, local, remote Cluster, with v1alpha1.ClusterID) (*v1alpha1.Peering, error) {
	a, err := local.Network(ctx)
	if err != nil {
		return nil, err
	}
	b, err := remote.Network(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case a.UID == b.UID:
		return nil, fmt.Errorf("%s and %s are the same cluster, %s; name the contexts of two", local.Name, remote.Name, a.Status.ClusterID)
	case with != "" && with != b.Status.ClusterID:
		return nil, fmt.Errorf("%s is cluster %s, but the Peering is with cluster %s; name the context of that cluster", remote.Name, b.Status.ClusterID, with)
	}
	all, err := remote.Peerings(ctx)
	return withCluster(all, a.Status.ClusterID), err
}
