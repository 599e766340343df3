package gather

import (
	"context"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/install"
)

// services reads exported and imported Services in all namespaces. Annotations that users
// export may contain anything, and are left out.
func (s *site) services(ctx context.Context) {
	c := s.Client
	read(ctx, s, "services/exportedservices.yaml", c.ExportedServices(install.GatewayNamespace), func(o *v1alpha1.ExportedService) any {
		o.ObjectMeta, o.Spec.Annotations = allowMeta(o.ObjectMeta), withoutValues(o.Spec.Annotations)
		return o
	})
	read(ctx, s, "services/receivedservices.yaml", c.ReceivedServices(install.GatewayNamespace), func(o *v1alpha1.ReceivedService) any {
		o.ObjectMeta, o.Spec.Service.Annotations = allowMeta(o.ObjectMeta), withoutValues(o.Spec.Service.Annotations)
		return o
	})
	if !s.multicluster(ctx) {
		s.note("The Multi-Cluster Services API is not installed: no Services are exported or imported.")
		return
	}
	read(ctx, s, "services/serviceexports.yaml", c.ServiceExports(""), func(o *mcsv1beta1.ServiceExport) any {
		o.ObjectMeta, o.Spec.ExportedAnnotations = allowMeta(o.ObjectMeta), withoutValues(o.Spec.ExportedAnnotations)
		return o
	})
	read(ctx, s, "services/serviceimports.yaml", c.ServiceImports(""), withMeta)
	labelled := func(label string) metav1.ListOptions { return metav1.ListOptions{LabelSelector: label} }
	readSelected(ctx, s, "services/services.yaml", c.Services(""), labelled(mcsv1beta1.LabelServiceName), withMeta)
	readSelected(ctx, s, "services/endpointslices.yaml", c.EndpointSlices(""), labelled(mcsv1beta1.LabelServiceName), withMeta)
}

// multicluster reports whether the API server serves the Multi-Cluster Services API, or may.
func (s *site) multicluster(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	_, err := s.Client.ServiceExports("").List(ctx, metav1.ListOptions{Limit: 1})
	return !apierrors.IsNotFound(err)
}

// withoutValues returns annotations with their names alone.
func withoutValues(annotations map[string]string) map[string]string {
	names := maps.Clone(annotations)
	for name := range names {
		names[name] = omitted
	}
	return names
}

// shownGroups are the API groups whose definitions are shown.
var shownGroups = []string{v1alpha1.GroupVersion.Group, mcsv1beta1.GroupName}
