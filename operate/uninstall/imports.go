package uninstall

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/services"
)

// services removes what is exported and imported, and returns what remains. The controller
// does so too once the ClusterNetwork is annotated, if it exports and imports Services at
// all. The garbage collector deletes the Services and EndpointSlices of imports.
func (p *preparation) services(ctx context.Context) (there []string, err error) {
	imported := metav1.ListOptions{LabelSelector: services.ImportLabel}
	imports, err := listed(ctx, p.Client.ServiceImports(""), imported)
	if err != nil {
		return nil, fmt.Errorf("list ServiceImports: %w", err)
	}
	if imports != nil {
		for i := range imports.Items {
			one := &imports.Items[i]
			there = append(there, "ServiceImport "+one.Namespace+"/"+one.Name)
			if err := remove(ctx, p, "ServiceImport", p.Client.ServiceImports(one.Namespace), one); err != nil {
				return nil, err
			}
		}
	}
	exported, err := listed(ctx, p.Client.ExportedServices(p.Gateways), metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list ExportedServices in %s: %w", p.Gateways, err)
	}
	if exported != nil {
		for i := range exported.Items {
			there = append(there, "ExportedService "+exported.Items[i].Name)
			if err := remove(ctx, p, "ExportedService", p.Client.ExportedServices(p.Gateways), &exported.Items[i]); err != nil {
				return nil, err
			}
		}
	}
	derived, err := listed(ctx, p.Client.Services(""), imported)
	if err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	for i := range derived.Items {
		there = append(there, "Service "+derived.Items[i].Namespace+"/"+derived.Items[i].Name)
	}
	slices, err := listed(ctx, p.Client.EndpointSlices(""), imported)
	if err != nil {
		return nil, fmt.Errorf("list EndpointSlices: %w", err)
	}
	for i := range slices.Items {
		there = append(there, "EndpointSlice "+slices.Items[i].Namespace+"/"+slices.Items[i].Name)
	}
	return there, nil
}

// listed lists objects, nil if their resource type is not installed.
func listed[T client.Object, L client.List](ctx context.Context, all *client.Kind[T, L], options metav1.ListOptions) (none L, err error) {
	list, err := all.List(ctx, options)
	if apierrors.IsNotFound(err) {
		return none, nil
	}
	return list, err
}
