package services

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
)

// The functions below return what this controller sets in an object, without what others set,
// and without times, which differ between two writes of the same content.

func ownOfService(s *corev1.Service) any {
	return []any{s.Labels[ImportLabel], s.Labels[mcsv1beta1.LabelServiceName], s.Spec.Ports, s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig,
		s.Spec.InternalTrafficPolicy, s.Spec.TrafficDistribution, s.Spec.IPFamilies}
}

func ownOfSlice(s *discoveryv1.EndpointSlice) any {
	return []any{s.Labels[ImportLabel], s.Labels[discoveryv1.LabelManagedBy], s.Labels[discoveryv1.LabelServiceName], s.Labels[mcsv1beta1.LabelServiceName],
		s.Labels[mcsv1beta1.LabelSourceCluster], s.AddressType, s.Ports, s.Endpoints}
}

func ownOfImport(i *mcsv1beta1.ServiceImport) any {
	var keys exportedKeys
	_ = json.Unmarshal([]byte(i.Annotations[exportedAnnotation]), &keys) // empty: none
	all := []any{i.Spec, i.Labels[ImportLabel], i.Annotations[DerivedAnnotation], keys}
	for _, key := range keys.Labels {
		all = append(all, i.Labels[key])
	}
	for _, key := range keys.Annotations {
		all = append(all, i.Annotations[key])
	}
	return all
}

func ownOfImportStatus(i *mcsv1beta1.ServiceImport) any {
	return []any{i.Status.Clusters, i.Status.EndpointSliceObjects, untimed(i.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady), NamedCondition)}
}

func ownOfExport(e *mcsv1beta1.ServiceExport) any {
	return untimed(e.Status.Conditions, exportConditions...)
}

func ownOfExported(e *v1alpha1.ExportedService) any { return e.Spec }

func ownOfReceived(r *v1alpha1.ReceivedService) any { return r.Status }

func untimed(all []metav1.Condition, types ...string) (some []metav1.Condition) {
	for _, kind := range types {
		for _, c := range all {
			if c.Type == kind {
				c.LastTransitionTime = metav1.Time{}
				some = append(some, c)
			}
		}
	}
	return some
}

// Contested returns the number of objects of exports and imports that another writer changes
// again and again.
func (c *Controller) Contested(now time.Time) (n int) {
	for _, of := range []*contests{&c.exports.contests, &c.imports.contests, &c.exported.contests, &c.services.contests, &c.slices.contests, &c.received.contests} {
		n += of.count(now)
	}
	return n
}
