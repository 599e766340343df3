package services

import (
	"cmp"
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/services/merge"
)

// writeSlices makes the EndpointSlices of an import contain the endpoints of all exports. One
// that cannot be written does not keep the others from it. The error is the first one.
func (r *reconciliation) writeSlices(ctx context.Context, of *mcsv1beta1.ServiceImport, merged merge.Import, all []source) error {
	var groups []merge.Group
	for _, one := range all {
		groups = append(groups, merged.Routed(one.Record, one.groups)...)
	}
	groups = slices.DeleteFunc(groups, func(g merge.Group) bool { return !hasFamily(merged.IPFamilies, g.AddressType) })
	existing := r.slices.list(byImport, r.String())
	unused := make(map[string]*discoveryv1.EndpointSlice)
	for _, slice := range existing {
		unused[slice.Name] = slice
	}
	var failed error
	for _, s := range merge.Assign(groups, existing, groupKey) {
		wanted := sliceOf(of, merged, s)
		delete(unused, wanted.Name)
		if s.Was != nil && merge.Same(s.Was, wanted) {
			continue
		}
		r.wrote = true
		var err error
		if s.Was == nil {
			_, err = r.slices.create(ctx, wanted)
		} else {
			_, err = r.slices.update(ctx, wanted)
		}
		failed = cmp.Or(failed, err)
	}
	for _, slice := range unused {
		failed = cmp.Or(failed, remove(ctx, r, r.slices, slice))
	}
	return failed
}

// hasFamily reports whether a Service with these IP families has endpoints with addresses of a
// type. Others have no routes, and DNS would return them for headless Services. No families:
// they are not known.
func hasFamily(families []corev1.IPFamily, of discoveryv1.AddressType) bool {
	return len(families) == 0 || slices.Contains(families, corev1.IPFamily(of))
}

func remove[T client.Object, L client.List](ctx context.Context, r *reconciliation, from *store[T, L], object T) error {
	r.wrote = true
	return from.delete(ctx, object)
}

func groupKey(s *discoveryv1.EndpointSlice) string {
	return merge.GroupKey(s.Labels[mcsv1beta1.LabelSourceCluster], s.AddressType, merge.PortsOf(s))
}

func sliceOf(of *mcsv1beta1.ServiceImport, merged merge.Import, s merge.Slice) *discoveryv1.EndpointSlice {
	derived := DerivedName(of.Namespace, of.Name)
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: derived + "-" + s.Suffix, OwnerReferences: []metav1.OwnerReference{owner(of)},
			Labels: map[string]string{
				ImportLabel: of.Name, discoveryv1.LabelManagedBy: ManagedBy, discoveryv1.LabelServiceName: derived,
				mcsv1beta1.LabelServiceName: of.Name, mcsv1beta1.LabelSourceCluster: s.Group.Cluster,
			},
		},
		AddressType: s.Group.AddressType,
	}
	if merged.Headless() {
		slice.Labels[corev1.IsHeadlessService] = "" // as on EndpointSlices of headless Services
	}
	if was := s.Was; was != nil {
		slice.Name, slice.UID, slice.ResourceVersion, slice.Annotations = was.Name, was.UID, was.ResourceVersion, was.Annotations
		slice.Labels, slice.OwnerReferences = withOwn(was.Labels, slice.Labels, corev1.IsHeadlessService), withOwner(was.OwnerReferences, owner(of))
	}
	for _, p := range s.Group.Ports {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &p.Port, AppProtocol: p.AppProtocol})
	}
	for _, e := range s.Endpoints {
		one := discoveryv1.Endpoint{Addresses: []string{e.Address}, Hostname: optional(e.Hostname), Zone: optional(e.Zone), NodeName: optional(e.Node),
			Conditions: discoveryv1.EndpointConditions{Ready: shared(&e.Ready), Serving: shared(&e.Serving), Terminating: shared(&e.Terminating)}}
		one.Hints = hints(merged.TrafficDistribution, e)
		slice.Endpoints = append(slice.Endpoints, one)
	}
	return slice
}

// hints returns the hints with which kube-proxy implements trafficDistribution: Kubernetes
// sets them on EndpointSlices of its own.
func hints(distribution *string, e merge.Endpoint) *discoveryv1.EndpointHints {
	if distribution == nil || e.Zone == "" {
		return nil
	}
	h := &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: e.Zone}}}
	if *distribution == corev1.ServiceTrafficDistributionPreferSameNode && e.Node != "" {
		h.ForNodes = []discoveryv1.ForNode{{Name: e.Node}}
	}
	return h
}

func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
