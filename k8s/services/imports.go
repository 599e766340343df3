package services

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"strait.dev/strait/k8s/api/v1alpha1"
	"strait.dev/strait/k8s/client"
	"strait.dev/strait/k8s/services/merge"
)

const (
	// ImportLabel is on all objects that imports consist of, with the name of the
	// ServiceImport. Objects without it are of others, and not touched.
	ImportLabel = "strait.dev/import"

	// ManagedBy is the value of endpointslice.kubernetes.io/managed-by.
	ManagedBy = "controller.strait.dev"

	// DerivedAnnotation of a ServiceImport is the name of its derived Service.
	DerivedAnnotation = "multicluster.kubernetes.io/derived-service"
)

// DerivedName returns the name of the Service that is derived from a ServiceImport.
func DerivedName(namespace, name string) string {
	sum := sha256.Sum256([]byte(namespace + "/" + name))
	return "derived-" + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:10]))
}

func ours(s *discoveryv1.EndpointSlice) bool {
	return s.Labels[ImportLabel] != "" && s.Labels[discoveryv1.LabelManagedBy] == ManagedBy
}

// importAll makes the objects of the import those that all exports together define; without
// exports there are none. problem says why there is no import although there are exports.
func (r *reconciliation) importAll(ctx context.Context, all []source) (problem string, err error) {
	if len(all) == 0 || !r.namespaceExists(r.namespace) {
		return "", r.removeImport(ctx)
	}
	exports := make([]merge.Export, len(all))
	for i, one := range all {
		exports[i] = one.Export
	}
	merged := merge.Merge(exports, r.cluster.families)
	r.conflicts = merged.Conflicts
	is, ok := r.imports.get(r.String())
	if ok && is.Labels[ImportLabel] != r.name {
		return fmt.Sprintf("ServiceImport %s is not of Strait; delete it, or remove the other implementation of the Multi-Cluster Services API", r.key), r.removeEndpoints(ctx, nil)
	}
	is, err = r.writeImport(ctx, is, merged, nil)
	if is == nil || err != nil && !refuses(err) {
		return "", err
	}
	if len(merge.Supported(merged.IPFamilies, r.cluster.families)) < len(merged.IPFamilies) {
		return "", cmp.Or(err, r.removeEndpoints(ctx, is), r.importStatus(ctx, is, merged, metav1.Condition{Status: metav1.ConditionFalse, Reason: string(mcsv1beta1.ServiceImportReasonIPFamilyNotSupported),
			Message: fmt.Sprintf("the Services of this cluster have the IP families %v only", r.cluster.families)}))
	}
	// What follows does not wait for what the API server refuses: connections need the
	// endpoints, and an object that exists serves them even if it is out of date.
	derived, ready, failed := r.writeDerived(ctx, is, merged)
	err = cmp.Or(err, failed)
	if derived != nil {
		if r.WithoutNodes && merged.Headless() {
			all, ready = r.withoutRemotes(all, ready)
		}
		is, failed = r.writeImport(ctx, is, merged, addressesOf(derived))
		err = cmp.Or(err, failed, r.writeSlices(ctx, is, merged, all))
	}
	if r.refused != nil {
		ready.Message = client.Clip(fmt.Sprintf("%s; the API server refuses what the exports define, so it has only what connections need: %v", ready.Message, r.refused), maxMessage)
	}
	return "", cmp.Or(err, r.importStatus(ctx, is, merged, ready))
}

// refuses reports whether an error is the decision of the API server on the content of an
// object: writing the same again has the same result.
func refuses(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

func (r *reconciliation) removeImport(ctx context.Context) error {
	if err := r.removeEndpoints(ctx, nil); err != nil {
		return err
	}
	is, ok := r.imports.get(r.String())
	if !ok || is.Labels[ImportLabel] != r.name {
		return nil
	}
	return remove(ctx, r, r.imports, is)
}

// removeEndpoints deletes the derived Service and the EndpointSlices of the import.
func (r *reconciliation) removeEndpoints(ctx context.Context, is *mcsv1beta1.ServiceImport) error {
	for _, slice := range r.slices.list(byImport, r.String()) {
		if err := remove(ctx, r, r.slices, slice); err != nil {
			return err
		}
	}
	derived, ok := r.services.get(r.namespace + "/" + DerivedName(r.namespace, r.name))
	if !ok || derived.Labels[ImportLabel] != r.name {
		return nil
	}
	if err := remove(ctx, r, r.services, derived); err != nil || is == nil || len(is.Spec.IPs) == 0 {
		return err
	}
	next := is.DeepCopy()
	next.Spec.IPs = nil
	_, err := r.imports.update(ctx, next)
	return err
}

// writeImport makes a ServiceImport what the exports define, or the essential part of it if
// the API server refuses the rest. nil: it does not exist. ips are those of the derived
// Service; nil: as they are. It returns the ServiceImport as it is then, also with an error.
func (r *reconciliation) writeImport(ctx context.Context, is *mcsv1beta1.ServiceImport, merged merge.Import, ips []string) (*mcsv1beta1.ServiceImport, error) {
	made, err := r.tryImport(ctx, is, merged, ips)
	if refuses(err) {
		r.refused = err
		made, err = r.tryImport(ctx, is, merged.Essential(), ips)
	}
	return made, err
}

func (r *reconciliation) tryImport(ctx context.Context, is *mcsv1beta1.ServiceImport, merged merge.Import, ips []string) (*mcsv1beta1.ServiceImport, error) {
	wanted := &mcsv1beta1.ServiceImport{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: r.name}}
	if is != nil {
		wanted = is.DeepCopy()
	}
	wanted.Labels, wanted.Annotations = importMetadata(is, merged)
	wanted.Labels[ImportLabel] = r.name
	wanted.Annotations[DerivedAnnotation] = DerivedName(r.namespace, r.name)
	spec := mcsv1beta1.ServiceImportSpec{
		Type: mcsv1beta1.ServiceImportType(merged.Type), IPs: wanted.Spec.IPs, Ports: make([]mcsv1beta1.ServicePort, 0, len(merged.Ports)),
		SessionAffinity: merged.SessionAffinity, SessionAffinityConfig: merged.SessionAffinityConfig, IPFamilies: merged.IPFamilies,
		InternalTrafficPolicy: merged.InternalTrafficPolicy, TrafficDistribution: merged.TrafficDistribution,
	}
	for _, p := range merged.Ports {
		spec.Ports = append(spec.Ports, mcsv1beta1.ServicePort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port})
	}
	if ips != nil || merged.Type == v1alpha1.ServiceRecordHeadless {
		spec.IPs = ips
	}
	wanted.Spec = spec
	switch {
	case is == nil:
		r.wrote = true
		made, err := r.imports.create(ctx, wanted)
		if err != nil {
			return nil, err
		}
		return made, nil
	case equality.Semantic.DeepEqual(is.Spec, wanted.Spec) && maps.Equal(is.Labels, wanted.Labels) && maps.Equal(is.Annotations, wanted.Annotations):
		return is, nil
	}
	r.wrote = true
	made, err := r.imports.update(ctx, wanted)
	if err != nil {
		return is, err
	}
	return made, nil
}

func (r *reconciliation) importStatus(ctx context.Context, is *mcsv1beta1.ServiceImport, merged merge.Import, ready metav1.Condition) error {
	r.importReady = ready
	next := is.DeepCopy()
	next.Status.EndpointSliceObjects = mcsv1beta1.EndpointSliceObjectsPresent
	next.Status.Clusters = nil
	for _, cluster := range merged.Clusters {
		next.Status.Clusters = append(next.Status.Clusters, mcsv1beta1.ClusterStatus{Cluster: cluster})
	}
	ready.Type, ready.ObservedGeneration = string(mcsv1beta1.ServiceImportConditionReady), is.Generation
	ready.LastTransitionTime = metav1.Time{Time: r.now.Truncate(time.Second)}
	meta.SetStatusCondition(&next.Status.Conditions, ready)
	if named := r.namedCondition(); named != nil {
		named.ObservedGeneration, named.LastTransitionTime = ready.ObservedGeneration, ready.LastTransitionTime
		meta.SetStatusCondition(&next.Status.Conditions, *named)
	} else {
		meta.RemoveStatusCondition(&next.Status.Conditions, NamedCondition)
	}
	if equality.Semantic.DeepEqual(next.Status, is.Status) {
		return nil
	}
	r.wrote = true
	return r.imports.updateStatus(ctx, next)
}

func familiesOf(cidrs []v1alpha1.CIDR) (families []corev1.IPFamily) {
	for _, cidr := range cidrs {
		p, err := netip.ParsePrefix(string(cidr))
		if err != nil {
			continue
		}
		family := corev1.IPv6Protocol
		if p.Addr().Is4() {
			family = corev1.IPv4Protocol
		}
		if !slices.Contains(families, family) {
			families = append(families, family)
		}
	}
	return families
}
