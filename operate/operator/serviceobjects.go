package operator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/install"
)

// serviceObjects are the objects of a cluster about exported and imported Services.
type serviceObjects struct {
	network    *v1alpha1.ClusterNetwork
	peerings   map[string]*v1alpha1.Peering
	reports    map[string]v1alpha1.GatewayReport // by name of the gateway
	exports    map[types.NamespacedName]*mcsv1beta1.ServiceExport
	imports    map[types.NamespacedName]*mcsv1beta1.ServiceImport
	exported   map[types.NamespacedName]*v1alpha1.ServiceRecord
	received   map[types.NamespacedName][]v1alpha1.ReceivedServiceSpec
	slices     map[types.NamespacedName][]discoveryv1.EndpointSlice // of imports
	namespaces map[string]bool
}

// checkServicesInstalled returns an error with a remedy if a cluster does not have the
// resource types of the Multi-Cluster Services API. The namespace is one that the caller may
// read.
func (c Cluster) checkServicesInstalled(ctx context.Context, namespace string) error {
	_, err := listAll(ctx, c, "ServiceExports", c.Client.ServiceExports(namespace), metav1.ListOptions{Limit: 1})
	return err
}

// listAll lists objects. A missing resource type is an error with a remedy.
func listAll[T client.Object, L client.List](ctx context.Context, c Cluster, what string, kind *client.Kind[T, L], options metav1.ListOptions) (L, error) {
	list, err := List(ctx, c, what, kind, options)
	if apierrors.IsNotFound(err) {
		return list, fmt.Errorf("%s: the cluster has no %s: Strait is installed there without Services, or in an earlier version; set services.enabled=true in the values of its chart, and upgrade it", c.Name, what)
	}
	return list, err
}

func (c Cluster) readServiceObjects(ctx context.Context) (*serviceObjects, error) {
	network, peerings, err := c.NetworkAndPeerings(ctx)
	if err != nil {
		return nil, err
	}
	o := &serviceObjects{
		network: network, peerings: map[string]*v1alpha1.Peering{}, reports: map[string]v1alpha1.GatewayReport{}, namespaces: map[string]bool{},
		exports: map[types.NamespacedName]*mcsv1beta1.ServiceExport{}, imports: map[types.NamespacedName]*mcsv1beta1.ServiceImport{},
		exported: map[types.NamespacedName]*v1alpha1.ServiceRecord{}, received: map[types.NamespacedName][]v1alpha1.ReceivedServiceSpec{},
		slices: map[types.NamespacedName][]discoveryv1.EndpointSlice{},
	}
	for i := range peerings {
		o.peerings[peerings[i].Name] = &peerings[i]
	}
	reports, err := c.Reports(ctx)
	if err != nil {
		return nil, err
	}
	for _, r := range reports {
		o.reports[r.Name] = r
	}
	all := metav1.ListOptions{}
	each(ctx, c, &err, "ServiceExports", c.Client.ServiceExports(""), all, func(e *mcsv1beta1.ServiceExport) { o.exports[nameOf(e)] = e })
	each(ctx, c, &err, "ServiceImports", c.Client.ServiceImports(""), all, func(i *mcsv1beta1.ServiceImport) { o.imports[nameOf(i)] = i })
	each(ctx, c, &err, "ExportedServices", c.Client.ExportedServices(install.GatewayNamespace), all, func(e *v1alpha1.ExportedService) {
		o.exported[types.NamespacedName{Namespace: e.Spec.Namespace, Name: e.Spec.Name}] = &e.Spec
	})
	each(ctx, c, &err, "ReceivedServices", c.Client.ReceivedServices(install.GatewayNamespace), all, func(r *v1alpha1.ReceivedService) {
		name := types.NamespacedName{Namespace: r.Spec.Service.Namespace, Name: r.Spec.Service.Name}
		o.received[name] = append(o.received[name], r.Spec)
	})
	imported := metav1.ListOptions{LabelSelector: mcsv1beta1.LabelServiceName + "," + mcsv1beta1.LabelSourceCluster}
	each(ctx, c, &err, "EndpointSlices", c.Client.EndpointSlices(""), imported, func(s *discoveryv1.EndpointSlice) {
		name := types.NamespacedName{Namespace: s.Namespace, Name: s.Labels[mcsv1beta1.LabelServiceName]}
		o.slices[name] = append(o.slices[name], *s)
	})
	each(ctx, c, &err, "Namespaces", c.Client.Namespaces(), all, func(n *corev1.Namespace) { o.namespaces[n.Name] = true })
	return o, err
}

// each calls a function for each object of a list, unless there is an error already.
func each[T client.Object, L client.List](ctx context.Context, c Cluster, failed *error, what string, kind *client.Kind[T, L], options metav1.ListOptions, do func(T)) {
	if *failed != nil {
		return
	}
	var list L
	if list, *failed = listAll(ctx, c, what, kind, options); *failed == nil {
		*failed = meta.EachListItem(list, func(o runtime.Object) error { do(o.(T)); return nil })
	}
}

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// names returns the names of all Services, sorted.
func (o *serviceObjects) names() []types.NamespacedName {
	all := slices.AppendSeq(slices.AppendSeq(slices.Collect(maps.Keys(o.exports)), maps.Keys(o.imports)), maps.Keys(o.received))
	slices.SortFunc(all, func(a, b types.NamespacedName) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return slices.Compact(all)
}

// remoteOf returns the ID of the remote cluster of a Peering, or the name of the Peering if
// the ID is not known.
func (o *serviceObjects) remoteOf(name string) string {
	if p := o.peerings[name]; p != nil {
		return remoteOf(p)
	}
	return name
}
