package uninstall

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/peering"
	"strait.dev/strait/k8s/services"
	"strait.dev/strait/operate/operator"
)

// remaining are the objects that a preparation waits for, like "Service shop/cart".
type remaining struct {
	there []string
	err   error // the first one, which ends the search
}

// objects removes objects, and returns those that remain. The garbage collector deletes objects of
// gateways after the Peerings that own them, and Services and EndpointSlices after their imports.
// The controller removes exports and imports too once the ClusterNetwork is annotated, if it has
// any.
func (p *preparation) objects(ctx context.Context) ([]string, error) {
	k, ours, imported, all := p.Client, metav1.ListOptions{LabelSelector: peering.Label}, metav1.ListOptions{LabelSelector: services.ImportLabel}, metav1.ListOptions{}
	r := &remaining{}
	look(ctx, p, r, "Peering", clusterWide(k.Peerings), "", all, true)
	look(ctx, p, r, "AddressMapping", clusterWide(k.AddressMappings), "", all, true)
	look(ctx, p, r, "ServiceImport", k.ServiceImports, "", imported, true)
	look(ctx, p, r, "ExportedService", k.ExportedServices, p.Gateways, all, true)
	look(ctx, p, r, "Service", k.Services, "", imported, false)
	look(ctx, p, r, "EndpointSlice", k.EndpointSlices, "", imported, false)
	look(ctx, p, r, "StatefulSet", k.StatefulSets, p.Gateways, ours, false)
	look(ctx, p, r, "Service", k.Services, p.Gateways, ours, false)
	look(ctx, p, r, "pod", k.Pods, p.Gateways, ours, false)
	return r.there, r.err
}

func clusterWide[K any](kind func() K) func(string) K { return func(string) K { return kind() } }

// look adds the objects of a resource type, none if it is not installed. With remove, it deletes
// those that are not being deleted.
func look[T client.Object, L client.List](ctx context.Context, p *preparation, r *remaining, what string, kind func(namespace string) *client.Kind[T, L], namespace string, which metav1.ListOptions, remove bool) {
	if r.err != nil {
		return
	}
	list, err := kind(namespace).List(ctx, which)
	if apierrors.IsNotFound(err) {
		return
	}
	if err != nil {
		r.err = fmt.Errorf("list objects of type %s: %w", what, err)
		return
	}
	r.err = meta.EachListItem(list, func(item runtime.Object) error {
		o := item.(T)
		name := what + " " + o.GetName()
		if namespace == "" && o.GetNamespace() != "" {
			name = what + " " + o.GetNamespace() + "/" + o.GetName()
		}
		r.there = append(r.there, name)
		if !remove || o.GetDeletionTimestamp() != nil {
			return nil
		}
		if err := operator.UnlessMissing(kind(o.GetNamespace()).Delete(ctx, o.GetName(), metav1.DeleteOptions{})); err != nil {
			return fmt.Errorf("remove %s: %w", name, err)
		}
		if !slices.Contains(p.Removed, name) {
			p.Removed = append(p.Removed, name)
		}
		return nil
	})
}
