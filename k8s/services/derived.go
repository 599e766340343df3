package services

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/services/merge"
)

// writeDerived makes the derived Service of a ServiceImport what the exports define, or the
// essential part of it if the API server refuses the rest. It returns the Service as it is
// then, nil if there is none, and the condition Ready of the ServiceImport.
// The Service has no selector: its EndpointSlices are those of the import, and kube-proxy
// balances over them as for any Service.
func (r *reconciliation) writeDerived(ctx context.Context, of *mcsv1beta1.ServiceImport, merged merge.Import) (*corev1.Service, metav1.Condition, error) {
	ready := metav1.Condition{Status: metav1.ConditionTrue, Reason: string(mcsv1beta1.ServiceImportReasonReady), Message: "the Service is imported"}
	pending := func(format string, arguments ...any) metav1.Condition {
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: string(mcsv1beta1.ServiceImportReasonPending), Message: client.Clip(fmt.Sprintf(format, arguments...), maxMessage)}
	}
	name := DerivedName(r.namespace, r.name)
	is, ok := r.services.get(r.namespace + "/" + name)
	if ok && is.Labels[ImportLabel] != r.name {
		return nil, pending("Service %s exists, and Strait did not create it; delete it or give it another name", name), r.removeEndpoints(ctx, of)
	}
	wanted := derivedService(r.namespace, name, of, merged)
	if ok && mustReplace(is, wanted) {
		if err := remove(ctx, r, r.services, is); err != nil {
			return nil, pending("%v", err), err
		}
		is = nil
	}
	made, err := r.tryDerived(ctx, is, wanted)
	if refuses(err) {
		r.refused = err
		made, err = r.tryDerived(ctx, is, derivedService(r.namespace, name, of, merged.Essential()))
	}
	if err != nil {
		return made, pending("%v", err), err
	}
	return made, ready, nil
}

// tryDerived makes the derived Service as wanted. nil: it does not exist. It returns the
// Service as it is then, also with an error.
func (r *reconciliation) tryDerived(ctx context.Context, is, wanted *corev1.Service) (*corev1.Service, error) {
	switch {
	case is == nil:
		r.wrote = true
		made, err := r.services.create(ctx, wanted)
		if err != nil {
			return nil, err
		}
		return made, nil
	case sameService(is, wanted):
		return is, nil
	}
	next := is.DeepCopy()
	next.Labels, next.OwnerReferences = withOwn(is.Labels, wanted.Labels), withOwner(is.OwnerReferences, wanted.OwnerReferences[0])
	next.Spec.Ports, next.Spec.SessionAffinity, next.Spec.SessionAffinityConfig = wanted.Spec.Ports, wanted.Spec.SessionAffinity, wanted.Spec.SessionAffinityConfig
	next.Spec.InternalTrafficPolicy, next.Spec.TrafficDistribution = wanted.Spec.InternalTrafficPolicy, wanted.Spec.TrafficDistribution
	next.Spec.Selector, next.Spec.ExternalIPs = nil, nil
	r.wrote = true
	made, err := r.services.update(ctx, next)
	if err != nil {
		return is, err
	}
	return made, nil
}

func derivedService(namespace, name string, of *mcsv1beta1.ServiceImport, merged merge.Import) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, OwnerReferences: []metav1.OwnerReference{owner(of)},
			Labels: map[string]string{ImportLabel: of.Name, mcsv1beta1.LabelServiceName: of.Name},
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, IPFamilies: merged.IPFamilies,
			SessionAffinity: merged.SessionAffinity, SessionAffinityConfig: merged.SessionAffinityConfig,
			InternalTrafficPolicy: merged.InternalTrafficPolicy, TrafficDistribution: merged.TrafficDistribution,
		},
	}
	if merged.Type == v1alpha1.ServiceRecordHeadless {
		s.Spec.ClusterIP = corev1.ClusterIPNone
	}
	switch len(merged.IPFamilies) {
	case 1:
		s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
	case 2:
		s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyPreferDualStack)
	}
	for _, p := range merged.Ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port})
	}
	return s
}

// mustReplace reports whether fields differ that are immutable. A cluster with one IP family
// may give a Service fewer families than it asks for.
func mustReplace(is, wanted *corev1.Service) bool {
	headless := func(s *corev1.Service) bool { return s.Spec.ClusterIP == corev1.ClusterIPNone }
	a, b := is.Spec.IPFamilies, wanted.Spec.IPFamilies
	return headless(is) != headless(wanted) || len(a) > 0 && len(b) > 0 && (len(a) > len(b) || !slices.Equal(a, b[:len(a)]))
}

func sameService(is, wanted *corev1.Service) bool {
	ports := slices.EqualFunc(is.Spec.Ports, wanted.Spec.Ports, func(a, b corev1.ServicePort) bool {
		return a.Name == b.Name && a.Protocol == b.Protocol && a.Port == b.Port && ptr.Equal(a.AppProtocol, b.AppProtocol)
	})
	policy := func(s *corev1.Service) corev1.ServiceInternalTrafficPolicy {
		return ptr.Deref(s.Spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	return ports && is.Spec.SessionAffinity == wanted.Spec.SessionAffinity &&
		(wanted.Spec.SessionAffinityConfig == nil || equality.Semantic.DeepEqual(is.Spec.SessionAffinityConfig, wanted.Spec.SessionAffinityConfig)) &&
		policy(is) == policy(wanted) && equality.Semantic.DeepEqual(is.Spec.TrafficDistribution, wanted.Spec.TrafficDistribution) &&
		len(is.Spec.Selector) == 0 && len(is.Spec.ExternalIPs) == 0 &&
		maps.Equal(withOwn(is.Labels, wanted.Labels), is.Labels) && slices.Contains(is.OwnerReferences, wanted.OwnerReferences[0])
}

func addressesOf(s *corev1.Service) []string {
	if s.Spec.ClusterIP == corev1.ClusterIPNone {
		return []string{}
	}
	return s.Spec.ClusterIPs
}
