package gather

import (
	"context"
	"maps"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
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
	read(ctx, s, "services/exportedservices.yaml", c.ExportedServices(install.GatewayNamespace), func(l *v1alpha1.ExportedServiceList) []v1alpha1.ExportedService { return l.Items },
		func(o v1alpha1.ExportedService) any {
			o.ObjectMeta, o.Spec.Annotations = allowMeta(o.ObjectMeta), withoutValues(o.Spec.Annotations)
			return o
		})
	read(ctx, s, "services/receivedservices.yaml", c.ReceivedServices(install.GatewayNamespace), func(l *v1alpha1.ReceivedServiceList) []v1alpha1.ReceivedService { return l.Items },
		func(o v1alpha1.ReceivedService) any {
			o.ObjectMeta, o.Spec.Service.Annotations = allowMeta(o.ObjectMeta), withoutValues(o.Spec.Service.Annotations)
			return o
		})
	if !s.multicluster(ctx) {
		s.note("The Multi-Cluster Services API is not installed: no Services are exported or imported.")
		return
	}
	read(ctx, s, "services/serviceexports.yaml", c.ServiceExports(""), func(l *mcsv1beta1.ServiceExportList) []mcsv1beta1.ServiceExport { return l.Items },
		func(o mcsv1beta1.ServiceExport) any {
			o.ObjectMeta, o.Spec.ExportedAnnotations = allowMeta(o.ObjectMeta), withoutValues(o.Spec.ExportedAnnotations)
			return o
		})
	read(ctx, s, "services/serviceimports.yaml", c.ServiceImports(""), func(l *mcsv1beta1.ServiceImportList) []mcsv1beta1.ServiceImport { return l.Items },
		func(o mcsv1beta1.ServiceImport) any { o.ObjectMeta = allowMeta(o.ObjectMeta); return o })
	labelled := func(label string) metav1.ListOptions { return metav1.ListOptions{LabelSelector: label} }
	readSome(ctx, s, "services/services.yaml", c.Services(""), labelled(mcsv1beta1.LabelServiceName), func(l *corev1.ServiceList) []corev1.Service { return l.Items },
		func(o corev1.Service) any { o.ObjectMeta = allowMeta(o.ObjectMeta); return o })
	readSome(ctx, s, "services/endpointslices.yaml", c.EndpointSlices(""), labelled(mcsv1beta1.LabelServiceName), func(l *discoveryv1.EndpointSliceList) []discoveryv1.EndpointSlice { return l.Items },
		func(o discoveryv1.EndpointSlice) any { o.ObjectMeta = allowMeta(o.ObjectMeta); return o })
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
